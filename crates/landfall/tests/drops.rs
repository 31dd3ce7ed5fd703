//! Whatever is dropped when: results are those of fresh memory. (In a process of its own, whose heap fills what is
//! freed with 0xFF.)
#[path = "recipe/dice.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod dice;
#[path = "device/gpu.rs"]
mod gpu;
#[path = "device/heap.rs"]
mod heap;
mod ops;
mod step;

use dice::Dice;
use landfall::{DType, Engine, Error, Tensor};
use step::step;

/// A tensor and what it must hold.
struct Known {
    tensor: Tensor,
    data: Vec<f64>,
}

gpu::on_each_device!(r10_any_order_of_drops_gives_the_results_of_fresh_memory);

fn r10_any_order_of_drops_gives_the_results_of_fresh_memory(e: &Engine) -> Result<(), Error> {
    // Engines of their own: one counts its bytes, the other gives nothing back while it lives.
    let engine = gpu::own(e)?;
    let (mut program, mut state) = step(&engine)?;
    let (mut alone, mut alone_state) = step(&gpu::own(e)?)?;
    let start = engine.counters().bytes_in_use;
    let mut dice = Dice(7);
    let mut live: Vec<Known> = Vec::new();
    for round in 0..4000 {
        let (r, c) = (1 + dice.below(9), 1 + dice.below(9));
        match dice.below(6) {
            0 | 1 => {
                let data: Vec<f64> = (0..r * c).map(|_| dice.unit()).collect();
                live.push(Known { tensor: engine.tensor([r, c], &data)?, data });
            }
            2 if !live.is_empty() => {
                // A result through a transposed view of a random tensor.
                let from = &live[dice.below(live.len())];
                let (r, c) = (from.tensor.shape().dims()[0], from.tensor.shape().dims()[1]);
                let mut out = engine.empty(DType::F64, [c, r])?;
                out.poison(0xff)?;
                let view = from.tensor.view().permute(&[1, 0])?;
                engine.call(&landfall::ops::Neg, &[view], &mut [out.view_mut()])?;
                let data = (0..r * c).map(|i| -from.data[i % r * c + i / r]).collect();
                live.push(Known { tensor: out, data });
            }
            3 if !live.is_empty() => {
                // In place on one half, from the other half of the same buffer.
                let k = dice.below(live.len());
                let Known { tensor, data } = &mut live[k];
                let (half, c) = (tensor.shape().dims()[0] / 2, tensor.shape().dims()[1]);
                let whole = tensor.view_mut().slice(0, 0, 2 * half)?;
                let (mut low, high) = whole.split_at_mut(half)?;
                engine.call_in_place(&landfall::ops::Add, 0, &mut low, &[high.as_ref()])?;
                (0..half * c).for_each(|i| data[i] += data[i + half * c]);
            }
            4 if !live.is_empty() => {
                // Whoever still reads it afterwards reads NaN, on a device too.
                let mut last = live.swap_remove(dice.below(live.len()));
                last.tensor.poison(0xff)?;
                drop(last);
            }
            _ if round % 8 == 0 => {
                program.run(&mut state)?;
                alone.run(&mut alone_state)?;
                assert_eq!(program.read::<f64>("loss")?, alone.read::<f64>("loss")?, "round {round}");
            }
            _ => {}
        }
        if live.len() > 40 {
            live.drain(..20);
        }
        if let Some(k) = dice.pick(&live) {
            assert_eq!(k.tensor.read::<f64>()?, k.data, "round {round}");
        }
    }
    for k in live.drain(..) {
        assert_eq!(k.tensor.read::<f64>()?, k.data, "at the end");
    }
    assert_eq!(engine.counters().bytes_in_use, start, "what was dropped is given back");
    Ok(())
}

#[test]
fn r12_a_program_outlives_its_handles_and_allocation_churn() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(2)?;
    let (mut issued, mut issued_state) = step(&engine)?;
    let (mut program, mut state) = step(&engine)?;
    let mut dice = Dice(3);
    for k in 0..200 {
        // Memory of the sizes that programs use comes and goes, full of NaN.
        let mut churn = Vec::new();
        for _ in 0..8 {
            let mut t = engine.empty(DType::F64, [1 + dice.below(20_000)])?;
            t.poison(0xff)?;
            churn.push(t);
        }
        program.run(&mut state)?;
        issued.issue(&mut issued_state)?;
        let (a, b) = (program.read::<f64>("loss")?, issued.read::<f64>("loss")?);
        assert_eq!(a[0].to_bits(), b[0].to_bits(), "step {k}: run gives {a:?}, issued gives {b:?}");
    }
    assert_eq!(state.read::<f64>("w1")?, issued_state.read::<f64>("w1")?);
    // The last handles of engine and state go; the outputs are still there to be read.
    let loss = program.read::<f64>("loss")?;
    drop((issued, issued_state, state, engine));
    let other = Engine::cpu_with_threads(1)?;
    let mut filler = other.empty(DType::F64, [40_000])?;
    filler.poison(0xff)?;
    assert_eq!(program.read::<f64>("loss")?, loss);
    Ok(())
}
