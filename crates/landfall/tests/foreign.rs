//! Memory and streams of other libraries: wrapped in place, checked like any other, given back once.

#[path = "device/foreign.rs"]
#[allow(unsafe_code, reason = "a test plays the other library")]
mod foreign;
#[path = "device/gpu.rs"]
mod gpu;

use foreign::{F32, again, flat, of_vector, shared, stream};
use gpu::{on_each_device, own};
use landfall::{DType, DeviceKind, Engine, Error, Graph, Layout, Program, State, StateSpec, View, ops};
use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

type Done = Result<(), Box<dyn StdError>>;

fn cpu() -> Result<Engine, Error> {
    Engine::cpu_with_threads(2)
}

#[test]
fn a_call_works_in_the_memory_itself() -> Done {
    let engine = cpu()?;
    let before = engine.counters();
    let (memory, drops) = of_vector(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let x = engine.wrap(memory, F32, Layout::strided([3, 2].into(), &[1, 3], 0)?)?;
    let address = x.address();
    engine.call_views(&ops::Neg, &[&x], &[&x])?;
    let after = engine.counters();
    assert_eq!((after.allocations, after.host_transfers), (before.allocations, before.host_transfers));
    assert_eq!(after.synchronizations, before.synchronizations);
    assert_eq!((x.address(), x.device()), (address, DeviceKind::Cpu));
    assert_eq!(x.read::<f32>()?, [-1.0, -4.0, -2.0, -5.0, -3.0, -6.0]);
    // The owner lives as long as any view.
    let part = x.slice(0, 1, 1)?.reshape([2])?;
    let other = part.clone();
    drop((x, part));
    assert_eq!(drops.load(SeqCst), 0);
    assert_eq!(other.read::<f32>()?, [-2.0, -5.0]);
    drop(other);
    assert_eq!(drops.load(SeqCst), 1);
    Ok(())
}

#[test]
fn a_program_and_a_view_keep_what_they_bind() -> Done {
    let engine = cpu()?;
    let spec = Arc::new(StateSpec::new());
    let graph = Graph::new(&spec);
    let x = graph.input("x", F32, [2]);
    graph.output("y", graph.square(x)?);
    let state = &mut State::new(&engine, &spec)?;
    let mut program = Program::compile(&engine, state, "square", &graph)?;
    let (memory, drops) = of_vector(vec![3.0f32, 4.0]);
    program.bind(&[("x", &engine.wrap(memory.read_only(), F32, flat(2))?)])?;
    program.run(state)?;
    let y = program.view("y")?;
    drop(program);
    assert_eq!((drops.load(SeqCst), y.read::<f32>()?), (1, vec![9.0, 16.0]));
    Ok(())
}

#[test]
fn memory_that_cannot_be_wrapped() -> Done {
    let engine = cpu()?;
    let wrap = |engine: &Engine, skip: usize, layout: Layout, dtype: DType| {
        let bytes = View::from(engine.empty(DType::U8, [64])?);
        let refused = engine.wrap(again(&bytes, skip), dtype, layout).err();
        Ok::<_, Error>(refused.map(|e| e.to_string()).unwrap_or_default())
    };
    let told = wrap(&engine, 2, flat(4), F32)?;
    assert!(told.contains("no multiple of the 4 bytes of an element of f32"), "{told}");
    let told = wrap(&engine, 0, flat(17), F32)?;
    assert!(told.contains("64 bytes of cpu at 0x") && told.contains("ends at element 17 of f32"), "{told}");
    let told = wrap(&engine, 0, Layout::strided([2, 2].into(), &[16, 1], 0)?, F32)?;
    assert!(told.contains("strides [16, 1] from element 0 on ends at element 18"), "{told}");
    assert_eq!(wrap(&engine, 0, Layout::strided([0, 9].into(), &[99, 99], 0)?, F32)?, "");
    assert!(Layout::strided([2].into(), &[1, 1], 0).is_err());
    assert!(Layout::strided([3].into(), &[usize::MAX], 0).is_err());
    // Of another device, and under the sanitizer.
    let (memory, _) = of_vector(vec![0u8; 4]);
    let told = Engine::null().wrap(memory, DType::U8, flat(4)).expect_err("another device").to_string();
    assert!(told.contains("this engine is on null"), "{told}");
    let (memory, drops) = of_vector(vec![0u8; 4]);
    let sanitized = engine.sanitized(landfall::sanitize::Allocator::NeverReuse);
    let told = sanitized.wrap(memory, DType::U8, flat(4)).expect_err("no guard bands").to_string();
    assert!(told.contains("has no guard bands"), "{told}");
    assert_eq!(drops.load(SeqCst), 1);
    assert!(matches!(engine.follow(None), Err(Error::NoStream { .. })) && engine.stream().is_none());
    Ok(())
}

#[test]
fn read_only_memory_is_never_written() -> Done {
    let engine = cpu()?;
    let (memory, _) = of_vector(vec![1.0f32, 2.0]);
    let x = engine.wrap(memory.read_only(), F32, flat(2))?;
    let told = engine.call_views(&ops::Exp, &[&x], &[&x]).expect_err("read-only").to_string();
    assert!(told.contains("output 0 is read-only memory"), "{told}");
    assert!(x.write(&[7.0f32, 7.0]).is_err() && !x.reshape([1, 2])?.is_writable());
    assert_eq!(engine.eval_views(&ops::Neg, &[&x])?[0].read::<f32>()?, [-1.0, -2.0]);
    assert_eq!(x.read::<f32>()?, [1.0, 2.0]);
    Ok(())
}

/// Two handles to overlapping bytes, as two exports of one array: found by byte range, whoever wrapped them.
fn overlap_is_found_between_handles(engine: &Engine) -> Done {
    let whole = View::from(engine.tensor([6], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?);
    let low = engine.wrap(again(&whole, 0), F32, flat(4))?;
    let high = engine.wrap(again(&whole, 8), F32, flat(4))?;
    let told = engine.call_views(&ops::Neg, &[&low], &[&high]).expect_err("they overlap").to_string();
    assert!(told.contains("neg") && told.contains("(bytes 8..24 and 0..16)"), "{told}");
    // Element for element the same memory is in place, whatever handle it has.
    let same = engine.wrap(again(&whole, 0), F32, flat(4))?;
    engine.call_views(&ops::Neg, &[&low], &[&same])?;
    assert_eq!(whole.read::<f32>()?, [-1.0, -2.0, -3.0, -4.0, 5.0, 6.0]);
    Ok(())
}

/// Calls of several threads on one memory wait for each other.
fn threads_take_turns(engine: &Engine) -> Done {
    let x = View::from(engine.tensor([4097], &vec![0.0f32; 4097])?);
    let one = View::from(engine.tensor([1], &[1.0f32])?);
    std::thread::scope(|scope| {
        let work = || (0..200).try_for_each(|_| engine.call_views(&ops::Add, &[&x, &one], &[&x]));
        let threads = [scope.spawn(work), scope.spawn(work), scope.spawn(work)];
        threads.into_iter().try_for_each(|t| t.join().expect("no panic"))
    })?;
    assert!(x.read::<f32>()?.iter().all(|&v| v == 600.0));
    Ok(())
}

/// Pointwise ops broadcast, others get their workspace; a part of memory is a destination.
fn calls_on_views(engine: &Engine) -> Done {
    let x = View::from(engine.tensor([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?);
    let row = View::from(engine.tensor([3], &[10.0f32, 20.0, 30.0])?);
    let out = View::from(engine.tensor([2, 2, 3], &[0.0f32; 12])?);
    engine.call_views(&ops::Add, &[&x, &row], &[&out.slice(0, 1, 1)?.squeeze(0)?])?;
    assert_eq!(out.read::<f32>()?[6..], [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
    assert_eq!(out.read::<f32>()?[..6], [0.0; 6]);
    let every_other = x.strided_slice(1, 0, 2, 2)?;
    engine.call_views(&ops::Neg, &[&every_other], &[&every_other])?;
    assert_eq!(x.read::<f32>()?, [-1.0, 2.0, -3.0, -4.0, 5.0, -6.0]);
    let told = engine.call_views(&ops::Add, &[&x, &row], &[&row]).expect_err("another shape").to_string();
    assert!(told.contains("output 0 must be f32[2, 3]"), "{told}");
    let big = View::from(engine.tensor([64, 64], &vec![1.0f32; 4096])?);
    let product = engine.eval_views(&ops::MatMul::default(), &[&big, &big])?.remove(0);
    engine.call_views(&ops::MatMul::default(), &[&big, &big], &[&product])?;
    assert_eq!(product.read::<f32>()?[4095], 64.0);
    Ok(())
}

/// A program in memory of the caller's: bound again and again, refused where bytes are shared.
fn programs_bind(engine: &Engine) -> Done {
    let spec = Arc::new(StateSpec::new());
    let graph = Graph::new(&spec);
    let (a, b) = (graph.input("a", F32, [4]), graph.input("b", F32, [4]));
    graph.output("sum", graph.add(a, b)?);
    graph.output("product", graph.mul(a, b)?);
    let state = &mut State::new(engine, &spec)?;
    let mut program = Program::compile(engine, state, "both", &graph)?;
    let memory = View::from(engine.tensor([20], &[3.0f32; 20])?);
    let part = |from: usize| memory.slice(0, from, 4);
    program.bind(&[("a", &part(0)?), ("sum", &part(4)?)])?;
    assert!(matches!(program.run(state), Err(Error::Unwritten { input, .. }) if input == "b"));
    program.write("b", &[1.0f32, 2.0, 3.0, 4.0])?;
    program.run(state)?;
    assert_eq!(part(4)?.read::<f32>()?, [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(program.read::<f32>("sum")?, [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(program.view("sum")?.address(), part(4)?.address());
    // Both inputs in one memory; the sum elsewhere.
    program.bind(&[("b", &part(0)?), ("sum", &part(8)?), ("product", &part(12)?)])?;
    program.run(state)?;
    assert_eq!(memory.slice(0, 8, 8)?.read::<f32>()?, [6.0, 6.0, 6.0, 6.0, 9.0, 9.0, 9.0, 9.0]);
    program.write_views(&[("b", &part(4)?)])?;
    assert_eq!(part(0)?.read::<f32>()?, [4.0, 5.0, 6.0, 7.0], "what is written lands in what is bound");
    let why = |bound: &[(&str, &View)], program: &mut Program| {
        program.bind(bound).expect_err("refused").to_string()
    };
    let told = why(&[("sum", &part(14)?)], &mut program);
    assert!(told.contains("overlap (bytes "), "{told}");
    let told = why(&[("sum", &memory.slice(0, 0, 3)?)], &mut program);
    assert!(told.contains("binding sum: it is f32[4], the memory is f32[3]"), "{told}");
    let told = why(&[("a", &memory.strided_slice(0, 0, 4, 2)?)], &mut program);
    assert!(told.contains("row-major without gaps (strides [2])"), "{told}");
    let stranger = View::from(own(engine)?.empty(F32, [4])?);
    let told = why(&[("a", &stranger)], &mut program);
    assert!(told.contains("another engine"), "{told}");
    assert!(matches!(program.bind(&[("c", &part(0)?)]), Err(Error::NoBinding { .. })));
    // What was refused changed nothing.
    program.run(state)?;
    assert_eq!(part(8)?.read::<f32>()?, [8.0, 10.0, 12.0, 14.0]);
    Ok(())
}

/// Two engines with a stream each: what one issues on the memory of the other is ordered behind it, and the other way round,
/// though the producer is slow.
fn streams_are_ordered(engine: &Engine) -> Done {
    let (producer, consumer) = (own(engine)?, own(engine)?);
    let n = if engine.device() == DeviceKind::Cpu { 1 << 10 } else { 1 << 22 };
    let delay = View::from(producer.tensor([n], &vec![1.0f32; n])?);
    let x = View::from(producer.tensor([n], &vec![0.0f32; n])?);
    let one = View::from(producer.tensor([1], &[1.0f32])?);
    for round in 1..=5 {
        (0..40).try_for_each(|_| producer.call_views(&ops::Sin, &[&delay], &[&delay]))?;
        producer.call_views(&ops::Add, &[&x, &one], &[&x])?;
        let before = consumer.counters().synchronizations;
        let theirs = shared(&x, &producer, &consumer)?;
        consumer.call_views(&ops::Neg, &[&theirs], &[&theirs])?;
        (0..40).try_for_each(|_| consumer.call_views(&ops::Neg, &[&theirs], &[&theirs]))?;
        drop(theirs);
        if engine.device() != DeviceKind::Cpu {
            assert_eq!(consumer.counters().synchronizations, before);
        }
        // 1 + −x in turn: each round sees what the one before made.
        producer.call_views(&ops::Add, &[&x, &one], &[&x])?;
        assert!(x.read::<f32>()?.iter().all(|&v| v == 0.0), "round {round}");
    }
    Ok(())
}

/// An engine that follows another's stream issues behind and before its work, and takes its own stream again.
fn a_stream_is_followed(engine: &Engine) -> Done {
    let (leader, follower) = (own(engine)?, own(engine)?);
    let Some(theirs) = stream(&leader) else { return Ok(()) };
    let n = 1 << 20;
    let x = View::from(leader.tensor([n], &vec![0.0f32; n])?);
    let one = View::from(leader.tensor([1], &[1.0f32])?);
    let (mine, mine_one) = (shared(&x, &leader, &follower)?, shared(&one, &leader, &follower)?);
    let own_stream = follower.stream();
    follower.follow(Some(theirs))?;
    assert_eq!(follower.stream(), leader.stream());
    for _ in 0..50 {
        leader.call_views(&ops::Add, &[&x, &one], &[&x])?;
        follower.call_views(&ops::Add, &[&mine, &mine_one], &[&mine])?;
    }
    follower.follow(None)?;
    assert_eq!(follower.stream(), own_stream);
    follower.call_views(&ops::Add, &[&mine, &mine_one], &[&mine])?;
    assert!(mine.read::<f32>()?.iter().all(|&v| v == 101.0));
    Ok(())
}

on_each_device!(
    overlap_is_found_between_handles,
    threads_take_turns,
    calls_on_views,
    programs_bind,
    streams_are_ordered,
    a_stream_is_followed,
);
