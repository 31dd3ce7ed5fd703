//! Nothing is allocated while programs run and ops are called. (One test in a process of its own: the count is of all
//! threads.)
#[path = "recipe/dice.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod dice;
#[path = "device/heap.rs"]
mod heap;
mod ops;
mod step;

use landfall::{DType, Engine, Error};
use step::step;

/// Without the test harness, whose threads allocate when they like.
fn main() -> Result<(), Error> {
    // Both live to the end: threads of a pool that starts up or winds down allocate too.
    let engines = [Engine::cpu_with_threads(1)?, Engine::cpu_with_threads(2)?];
    std::thread::sleep(std::time::Duration::from_millis(300));
    five_thousand_runs_allocate_nothing(&engines)?;
    println!("test r02_five_thousand_runs_allocate_nothing ... ok");
    eager_calls_allocate_nothing(&engines)?;
    println!("test r02_eager_calls_allocate_nothing ... ok");
    Ok(())
}

fn five_thousand_runs_allocate_nothing(engines: &[Engine; 2]) -> Result<(), Error> {
    let mut losses = Vec::new();
    for (threads, engine) in (1..).zip(engines) {
        let (mut program, mut state) = step(engine)?;
        let runs = if threads == 1 { 5000 } else { 1000 };
        let (device, heap) = engine.enter(|| {
            program.run(&mut state)?;
            program.run(&mut state)?;
            let (device, heap) = (engine.counters(), heap::allocations());
            for _ in 2..runs {
                program.run(&mut state)?;
            }
            Ok::<_, Error>((device, heap::allocations() - heap))
        })?;
        let after = engine.counters();
        assert_eq!(heap, 0, "{threads} threads: the host's heap must not be touched by a run");
        assert_eq!(after.allocations, device.allocations, "{threads} threads: device allocations");
        assert_eq!(after.bytes_in_use, device.bytes_in_use, "{threads} threads: device bytes");
        assert_eq!(after.host_transfers, device.host_transfers, "{threads} threads: host transfers");
        assert_eq!(after.replays - device.replays, runs - 2, "{threads} threads: one replay a run");
        losses.push((threads, runs, program.read::<f64>("loss")?[0]));
    }
    let [(_, _, longer), (_, _, shorter)] = losses[..] else { panic!("two runs: {losses:?}") };
    assert!(longer < shorter && shorter < 0.95, "training must go on: {losses:?}");
    Ok(())
}

fn eager_calls_allocate_nothing(engines: &[Engine; 2]) -> Result<(), Error> {
    for (threads, engine) in (1..).zip(engines) {
        let ones = vec![1.0f32; 96 * 96];
        let a = engine.tensor([96, 96], &ones)?;
        let b = engine.tensor([96, 96], &ones)?;
        let mut out = engine.empty(DType::F32, [96, 96])?;
        let mut sum = engine.empty(DType::F32, [96])?;
        engine.reserve(engine.workspace(&landfall::ops::MatMul::default(), &[a.spec(), b.spec()])?)?;
        let mean = landfall::ops::Reduce::new(landfall::ops::Reduction::Sum, &[0]);
        let mut calls = || -> Result<(), Error> {
            engine.call(
                &landfall::ops::MatMul::default(),
                &[a.view().permute(&[1, 0])?, b.view()],
                &mut [out.view_mut()],
            )?;
            engine.call_in_place(&landfall::ops::Add, 0, &mut out.view_mut(), &[b.view()])?;
            engine.call(&mean, &[out.view()], &mut [sum.view_mut()])
        };
        let (device, heap) = engine.enter(|| {
            calls()?;
            let before = (engine.counters(), heap::allocations());
            (0..100).try_for_each(|_| calls())?;
            Ok::<_, Error>((before.0, heap::allocations() - before.1))
        })?;
        assert_eq!(heap, 0, "{threads} threads: an eager call must not touch the host's heap");
        assert_eq!(engine.counters().allocations, device.allocations);
        assert_eq!(sum.read::<f32>()?, vec![97.0 * 96.0; 96]);
    }
    Ok(())
}
