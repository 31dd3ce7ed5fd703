//! The contract, rule by rule. Names say the number of the failure in another system that each makes impossible.
#[path = "device/gpu.rs"]
mod gpu;
mod ops;

use gpu::on_each_device;
use landfall::ops::{Add, Cast, Copy, MatMul, Neg, Op, Reduce, Reduction, RunningUpdate, Tanh};
use landfall::{DType, Engine, Error, Graph, HostTensor, Program, State, StateSpec, Tensor, half};
use ops::{Fault, Faulty, ReverseRows};
use std::sync::Arc;

fn engine() -> Result<Engine, Error> {
    Engine::cpu_with_threads(2)
}

fn count(n: usize) -> Vec<f64> {
    (0..n).map(|i| i as f64 + 1.0).collect()
}

on_each_device!(
    r01_the_result_is_in_the_destination_whatever_its_layout,
    r03_calls_issued_and_recorded_programs_give_the_same_bytes,
    r05_no_call_takes_a_detour_over_the_host,
    r07_a_forbidden_overlap_stops_before_the_launch,
    r08_views_move_nothing_and_copies_share_nothing,
    r09_outputs_have_their_own_memory,
    r13_state_is_keyed_by_name,
    r14_views_pin_nothing,
    r24_poison_is_nan_in_every_float_dtype,
    r25_a_transpose_of_equal_or_single_sizes_is_no_reshape,
);

fn r01_the_result_is_in_the_destination_whatever_its_layout(e: &Engine) -> Result<(), Error> {
    let x = e.tensor([2, 3], &count(6))?;
    // Into a transposed slice of a larger tensor: every element of it is written, nothing beside it.
    let mut out = e.empty(DType::F64, [4, 3])?;
    out.poison(0xff)?;
    let mut target = out.view_mut().slice(0, 1, 3)?.slice(1, 0, 2)?.permute(&[1, 0])?;
    e.call(&Neg, &[x.view()], &mut [target.reborrow()])?;
    let got = out.read::<f64>()?;
    let want = [0.0, 0.0, 0.0, -1.0, -4.0, 0.0, -2.0, -5.0, 0.0, -3.0, -6.0, 0.0];
    for (i, (&g, &w)) in got.iter().zip(&want).enumerate() {
        assert!(
            if w == 0.0 { g.is_nan() } else { g == w },
            "element {i} is {g}, it must be {w} (0: untouched)"
        );
    }
    Ok(())
}

fn r03_calls_issued_and_recorded_programs_give_the_same_bytes(e: &Engine) -> Result<(), Error> {
    let state = Arc::new(StateSpec::new());
    let g = Graph::new(&state);
    let x = g.input("x", DType::F32, [70, 50]);
    let y = g.tanh(g.matmul(x, g.transpose(x)?)?)?;
    g.output("y", y);
    let mut state = State::new(e, &state)?;
    let mut p = Program::compile(e, &state, "p", &g)?;
    let data: Vec<f32> = (0..3500).map(|i| (i as f32 * 0.37).sin()).collect();
    p.write("x", &data)?;
    p.run(&mut state)?;
    let run = p.read::<f32>("y")?;
    p.issue(&mut state)?;
    assert_eq!(run, p.read::<f32>("y")?);
    let x = e.tensor([70, 50], &data)?;
    let mut product = e.empty(DType::F32, [70, 70])?;
    let mut y = e.empty(DType::F32, [70, 70])?;
    let xt = x.view().permute(&[1, 0])?;
    e.reserve(e.workspace(&MatMul::default(), &[x.spec(), xt.spec()])?)?;
    e.call(&MatMul::default(), &[x.view(), xt], &mut [product.view_mut()])?;
    e.call(&Tanh, &[product.view()], &mut [y.view_mut()])?;
    assert_eq!(run, y.read::<f32>()?);
    Ok(())
}

fn r05_no_call_takes_a_detour_over_the_host(e: &Engine) -> Result<(), Error> {
    let e = &gpu::own(e)?;
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let mut x = e.empty(dtype, [8, 8])?;
        x.poison(0)?;
        let mut y = e.empty(dtype, [8, 8])?;
        e.reserve(e.workspace(&MatMul::default(), &[x.spec(), x.spec()])?)?;
        let before = e.counters();
        e.call(&Copy, &[x.view().permute(&[1, 0])?], &mut [y.view_mut()])?;
        e.call(&landfall::ops::Fill { spec: y.spec(), value: 1.0 }, &[], &mut [y.view_mut()])?;
        e.call_in_place(&Add, 0, &mut y.view_mut(), &[x.view()])?;
        e.call(&MatMul::default(), &[y.view(), y.view()], &mut [x.view_mut()])?;
        let after = e.counters();
        assert_eq!(after.host_transfers, before.host_transfers, "{dtype}");
        assert_eq!(after.launches - before.launches, 4, "{dtype}");
        assert_eq!(x.read_host()?.data, [8.0; 64], "{dtype}");
    }
    Ok(())
}

#[test]
fn r06_what_cannot_be_read_is_an_error_never_zeros() -> Result<(), Error> {
    let e = Engine::null();
    let t = e.empty(DType::F32, [4])?;
    let text = "reading a tensor: device null computes nothing, so there is no result to read";
    assert_eq!(t.read::<f32>().expect_err("nothing to read").to_string(), text);
    assert_eq!(t.read_host().expect_err("nothing to read").to_string(), text);
    let mut spec = StateSpec::new();
    spec.add("s", DType::F32, &[("w".into(), [3].into())])?;
    let spec = Arc::new(spec);
    let mut state = State::new(&e, &spec)?;
    assert_eq!(state.read::<f32>("w").expect_err("nothing to read").to_string(), text);
    let g = Graph::new(&spec);
    g.output("y", g.neg(g.entry("w")?)?);
    let mut p = Program::compile(&e, &state, "p", &g)?;
    let before = p.read::<f32>("y").expect_err("it has not run");
    assert!(matches!(before, Error::NotRun { .. }), "{before}");
    p.run(&mut state)?;
    assert_eq!(p.read::<f32>("y").expect_err("nothing to read").to_string(), text);
    // Before the first run there is nothing on the processor either.
    let e = engine()?;
    let state = State::new(&e, &spec)?;
    let p = Program::compile(&e, &state, "p", &g)?;
    assert!(matches!(p.read_host("y"), Err(Error::NotRun { .. })));
    Ok(())
}

fn r07_a_forbidden_overlap_stops_before_the_launch(e: &Engine) -> Result<(), Error> {
    let e = &gpu::own(e)?;
    let mut a = e.tensor([3, 3], &count(9))?;
    let b = e.tensor([3, 3], &count(9))?;
    let before = e.counters().launches;
    assert!(e.call_in_place(&MatMul::default(), 0, &mut a.view_mut(), &[b.view()]).is_err());
    assert_eq!(e.counters().launches, before);
    assert_eq!(a.read::<f64>()?, count(9), "the operand is untouched");
    // What is allowed in place gives what it gives apart.
    e.call_in_place(&Add, 0, &mut a.view_mut(), &[b.view()])?;
    assert_eq!(a.read::<f64>()?, count(9).iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    Ok(())
}

fn r08_views_move_nothing_and_copies_share_nothing(e: &Engine) -> Result<(), Error> {
    let e = &gpu::own(e)?;
    let a = e.tensor([2, 6], &count(12))?;
    let before = e.counters();
    let v = a.view().reshape([3, 4])?.permute(&[1, 0])?.slice(0, 1, 2)?;
    let w = a.view().slice(0, 1, 1)?.squeeze(0)?.unfold(3, 1)?;
    let b = a.view().slice(1, 0, 1)?.broadcast_to([5, 2, 7])?;
    assert!(v.reshape([6]).is_err(), "these strides forbid it");
    assert_eq!((w.spec().to_string(), b.spec().to_string()), ("f64[4, 3]".into(), "f64[5, 2, 7]".into()));
    assert_eq!(e.counters(), before, "a view launches, allocates and transfers nothing");
    let mut copy = e.empty(DType::F64, [2, 3])?;
    e.call(&Copy, &[v], &mut [copy.view_mut()])?;
    assert_eq!(copy.read::<f64>()?, [2.0, 6.0, 10.0, 3.0, 7.0, 11.0]);
    e.call_in_place(&Neg, 0, &mut copy.view_mut(), &[])?;
    assert_eq!(a.read::<f64>()?, count(12), "an op in place on a copy leaves its source alone");
    Ok(())
}

/// Two programs over one state and one arena: `[a, b] = f(x)`.
fn pair(e: &Engine) -> Result<(Program, Program, State), Error> {
    let mut spec = StateSpec::new();
    spec.add("s", DType::F64, &[("w".into(), [32].into())])?;
    let spec = Arc::new(spec);
    let state = State::new(e, &spec)?;
    let mut set = landfall::ProgramSet::new(e, &state);
    for (name, factor) in [("one", 2.0), ("two", 3.0)] {
        let g = Graph::new(&spec);
        let x = g.input("x", DType::F64, [8, 4]);
        let y = g.affine(g.copy(g.transpose(x)?)?, factor, 0.0)?;
        let z = g.tanh(g.matmul(x, y)?)?;
        g.output("y", y);
        g.output("row", g.slice(y, 0, 1, 1)?);
        g.output("z", z);
        let flat = g.reshape(y, [32])?;
        g.op1(ops::Decay { keep: 0.5 }, &[g.entry("w")?, flat])?;
        g.output("w", g.entry("w")?);
        set.add(name, &g)?;
    }
    let mut built = set.build()?;
    let (mut two, mut one) = (built.pop().expect("two were added"), built.pop().expect("two were added"));
    [&mut one, &mut two].into_iter().try_for_each(|p| p.write("x", &count(32)))?;
    Ok((one, two, state))
}

fn r09_outputs_have_their_own_memory(e: &Engine) -> Result<(), Error> {
    let e = &gpu::own(e)?;
    let in_use = e.counters().bytes_in_use;
    let (mut one, mut two, mut state) = pair(e)?;
    let arena = one.report().arena_bytes.max(two.report().arena_bytes);
    let own: usize = [&one, &two].iter().map(|p| p.report().own_bytes).sum();
    let used = (e.counters().bytes_in_use - in_use) as usize;
    assert_eq!(used, arena + own + state.bytes(), "one arena serves both programs");
    let (x1, x2) = (count(32), count(32).iter().map(|x| -x).collect::<Vec<_>>());
    one.write("x", &x1)?;
    two.write("x", &x2)?;
    let read = |p: &Program| ["y", "row", "z", "w"].map(|name| p.read::<f64>(name).expect("it has run"));
    one.run(&mut state)?;
    let first = read(&one);
    assert_eq!(first[3], [0.0; 32], "the state as it was before the run");
    assert_eq!(first[1], first[0][8..16]);
    two.poison(&mut state, 0xff)?;
    two.run(&mut state)?;
    assert_eq!(read(&one), first, "another program's run leaves the outputs of the first alone");
    assert_eq!(two.read::<f64>("w")?, first[0], "it starts from the state that the first left");
    let second = read(&two);
    one.run(&mut state)?;
    assert_eq!((&read(&one)[..3], read(&two)), (&first[..3], second));
    Ok(())
}

fn r13_state_is_keyed_by_name(e: &Engine) -> Result<(), Error> {
    let entry = |name: &str| (name.to_owned(), [3].into());
    let mut last = Vec::new();
    for names in [["a", "b"], ["b", "a"], ["c", "a"]] {
        let mut spec = StateSpec::new();
        spec.add("moments", DType::F64, &names.map(entry))?;
        assert_eq!(
            spec.add("more", DType::F64, &[entry("a")]),
            Err(Error::TwiceNamed { name: "a".into() }),
            "a name is one entry's"
        );
        // The memory of the state before is free again, and full; a new state starts from zeros all the same.
        let mut state = State::new(e, &Arc::new(spec))?;
        for name in names {
            assert_eq!(state.read::<f64>(name)?, [0.0; 3], "{name} in {names:?}");
        }
        state.write(names[0], &[1.0, 2.0, 3.0])?;
        state.write(names[1], &[4.0, 5.0, 6.0])?;
        last.push((state.read::<f64>(names[0])?, state.read::<f64>(names[1])?));
        assert!(matches!(state.read::<f64>("d"), Err(Error::NoEntry { .. })));
    }
    assert!(last.iter().all(|l| *l == (vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0])));
    Ok(())
}

fn r14_views_pin_nothing(e: &Engine) -> Result<(), Error> {
    let e = &gpu::own(e)?;
    let before = e.counters().bytes_in_use;
    let a = e.tensor([100], &count(100))?;
    let mut kept: Vec<Tensor> = Vec::new();
    for i in 0..10 {
        let mut out = e.empty(DType::F64, [10])?;
        e.call(&Copy, &[a.view().slice(0, i * 10, 10)?], &mut [out.view_mut()])?;
        kept.push(out);
    }
    drop(a);
    assert_eq!(e.counters().bytes_in_use - before, 800, "only the copies are left");
    drop(kept);
    assert_eq!(e.counters().bytes_in_use, before);
    Ok(())
}

#[test]
fn r16_the_first_run_finds_everything_ready() -> Result<(), Error> {
    for e in [engine()?, Engine::null()] {
        let (mut one, _, mut state) = pair(&e)?;
        let before = e.counters();
        one.run(&mut state)?;
        let after = e.counters();
        assert_eq!(after.allocations, before.allocations, "{}", e.device());
        assert_eq!(after.host_transfers, before.host_transfers, "{}", e.device());
    }
    Ok(())
}

/// A program whose kernel fails.
fn faulty(e: &Engine, fault: Fault) -> Result<(Program, State), Error> {
    let spec = Arc::new(StateSpec::new());
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F64, [8]);
    g.output("y", g.op1(Faulty(fault), &[g.neg(x)?])?);
    let state = State::new(e, &spec)?;
    let mut p = Program::compile(e, &state, "faulty", &g)?;
    p.write("x", &count(8))?;
    Ok((p, state))
}

fn works(e: &Engine) -> Result<(), Error> {
    let (mut one, _, mut state) = pair(e)?;
    one.write("x", &count(32))?;
    one.run(&mut state)?;
    assert_eq!(one.read::<f64>("row")?[..2], [4.0, 12.0]);
    let x = e.tensor([4], &count(4))?;
    let mut y = e.empty(DType::F64, [4])?;
    e.call(&Neg, &[x.view()], &mut [y.view_mut()])?;
    assert_eq!(y.read::<f64>()?, [-1.0, -2.0, -3.0, -4.0]);
    Ok(())
}

#[test]
fn r18_an_error_names_the_op_and_leaves_the_engine_usable() -> Result<(), Error> {
    let e = engine()?;
    let (mut p, mut state) = faulty(&e, Fault::Error)?;
    for _ in 0..2 {
        let text = p.run(&mut state).expect_err("the kernel fails").to_string();
        assert_eq!(text, "faulty(f64[8] on cpu): fault is 1; it must be absent");
        assert!(p.issue(&mut state).is_err());
        works(&e)?;
    }
    assert_eq!(p.runs(), 0, "a run that failed is none");
    assert!(matches!(p.read::<f64>("y"), Err(Error::NotRun { .. })), "and leaves no result");
    let (mut p, mut state) = faulty(&e, Fault::Panic)?;
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| p.run(&mut state)));
    assert!(run.is_err());
    works(&e)?;
    // A flagged index: the next read says it, once.
    let (mut p, mut state) = faulty(&e, Fault::Index)?;
    p.run(&mut state)?;
    let text = p.read::<f64>("y").expect_err("an index was out of range").to_string();
    assert_eq!(text, "faulty: index -7 at position 3 is out of range 0..5; the kernel clamped it");
    works(&e)
}

#[test]
fn r20_a_run_is_one_replay() -> Result<(), Error> {
    for e in [engine()?, Engine::null()] {
        let (mut one, _, mut state) = pair(&e)?;
        let n = one.report().instructions as u64;
        let before = e.counters();
        (0..5).try_for_each(|_| one.run(&mut state))?;
        let run = e.counters();
        assert_eq!(run.replays - before.replays, 5, "{}", e.device());
        assert_eq!(run.launches - before.launches, 5 * n, "{}", e.device());
        one.issue(&mut state)?;
        let issued = e.counters();
        assert_eq!((issued.replays, issued.launches - run.launches), (run.replays, n), "{}", e.device());
    }
    Ok(())
}

#[test]
fn r21_one_engine_fails_and_another_does_not_notice() -> Result<(), Error> {
    let (bad, good) = (engine()?, engine()?);
    std::thread::scope(|s| {
        let failing = s.spawn(|| {
            let (mut p, mut state) = faulty(&bad, Fault::Error)?;
            assert!((0..200).all(|_| p.run(&mut state).is_err()));
            let (mut p, mut state) = faulty(&bad, Fault::Index)?;
            (0..50).try_for_each(|_| p.run(&mut state))?;
            assert!(p.read::<f64>("y").is_err());
            Ok::<_, Error>(())
        });
        (0..50).try_for_each(|_| works(&good))?;
        failing.join().expect("the failing engine reports errors, it does not panic")
    })?;
    works(&bad)
}

fn r24_poison_is_nan_in_every_float_dtype(e: &Engine) -> Result<(), Error> {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let mut t = e.empty(dtype, [33])?;
        t.poison(0xff)?;
        assert!(t.read_host()?.data.iter().all(|x| x.is_nan()), "{dtype}");
    }
    Ok(())
}

fn r25_a_transpose_of_equal_or_single_sizes_is_no_reshape(e: &Engine) -> Result<(), Error> {
    let spec = Arc::new(StateSpec::new());
    let g = Graph::new(&spec);
    let square = g.input("square", DType::F64, [3, 3]);
    let cube = g.input("cube", DType::F64, [1, 2, 1, 2]);
    g.output("square", g.copy(g.transpose(square)?)?);
    g.output("flat", g.reshape(g.transpose(square)?, [9])?);
    g.output("cube", g.copy(g.permute(cube, &[2, 3, 0, 1])?)?);
    g.output("column", g.reshape(g.transpose(g.slice(square, 0, 1, 1)?)?, [3])?);
    let mut state = State::new(e, &spec)?;
    let mut p = Program::compile(e, &state, "p", &g)?;
    p.write("square", &count(9))?;
    p.write("cube", &count(4))?;
    p.run(&mut state)?;
    let transposed = [1.0, 4.0, 7.0, 2.0, 5.0, 8.0, 3.0, 6.0, 9.0];
    assert_eq!(p.read::<f64>("square")?, transposed);
    assert_eq!(p.read::<f64>("flat")?, transposed);
    assert_eq!(p.read::<f64>("cube")?, [1.0, 3.0, 2.0, 4.0]);
    assert_eq!(p.read::<f64>("column")?, [4.0, 5.0, 6.0]);
    Ok(())
}

#[test]
fn r29_r30_permutations_under_memory_pressure() -> Result<(), Error> {
    // A chain of row reversals, each input dying in its op: whatever is reused, no output may be the input.
    let e = engine()?;
    let spec = Arc::new(StateSpec::new());
    let g = Graph::new(&spec);
    let mut rows = g.neg(g.input("x", DType::F64, [16, 16]))?;
    let mut probs = g.neg(g.input("p", DType::F64, [16]))?;
    for _ in 0..9 {
        let out = g.op(ReverseRows, &[g.copy(g.transpose(rows)?)?, probs])?;
        (rows, probs) = (out[0], out[1]);
    }
    g.output("rows", g.neg(rows)?);
    g.output("probs", g.neg(probs)?);
    let mut state = State::new(&e, &spec)?;
    let mut p = Program::compile(&e, &state, "p", &g)?;
    let report = p.report();
    assert!(
        report.arena_bytes <= 2 * (2048 + 128),
        "two of each are alive at a time: {}",
        report.arena_bytes
    );
    let x = count(256);
    p.write("x", &x)?;
    p.write("p", &count(16))?;
    let mut want = x;
    for _ in 0..9 {
        want = (0..256).map(|i| want[i % 16 * 16 + 15 - i / 16]).collect();
    }
    for byte in [0xff, 0] {
        p.poison(&mut state, byte)?;
        p.run(&mut state)?;
        assert_eq!(p.read::<f64>("rows")?, want);
        assert_eq!(p.read::<f64>("probs")?, count(16).into_iter().rev().collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn a_program_runs_on_its_own_state_only() -> Result<(), Error> {
    let e = engine()?;
    let (mut one, _, state) = pair(&e)?;
    let mut other = State::new(&e, state.spec())?;
    for result in [one.run(&mut other), one.issue(&mut other), one.poison(&mut other, 0)] {
        assert_eq!(result, Err(Error::ForeignState));
    }
    assert_eq!(other.read::<f64>("w")?, [0.0; 32]);
    Ok(())
}

#[test]
fn reading_as_another_dtype_is_an_error() -> Result<(), Error> {
    let e = engine()?;
    let x = e.tensor([2], &[1.5f32, 2.5])?;
    let mut y = e.empty(DType::BF16, [2])?;
    e.call(&Cast { dtype: DType::BF16 }, &[x.view()], &mut [y.view_mut()])?;
    assert!(y.read::<f32>().is_err() && y.read::<half::f16>().is_err());
    assert_eq!(y.read::<half::bf16>()?, [half::bf16::from_f32(1.5), half::bf16::from_f32(2.5)]);
    assert_eq!(Cast { dtype: DType::BF16 }.name(), "cast");
    Ok(())
}

/// What `eval` allocates is what `call` writes: broadcasting, workspace and several results included.
#[test]
fn eval_is_a_call_with_new_memory() -> Result<(), Error> {
    let e = engine()?;
    let (a, row) = (e.tensor([2, 3], &count(6))?, e.tensor([3], &[10.0, 20.0, 30.0])?);
    let sum = e.eval(&Add, &[a.view(), row.view()])?;
    assert_eq!(sum.read::<f64>()?, [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
    let product = e.eval(&MatMul::default(), &[a.view(), a.view().permute(&[1, 0])?])?;
    assert_eq!(product.read::<f64>()?, [14.0, 32.0, 32.0, 77.0]);
    let many = e.tensor([100_000], &count(100_000))?;
    let total = e.eval(&Reduce::new(Reduction::Sum, &[0]), &[many.view()])?;
    assert_eq!(total.item::<f64>()?, 5_000_050_000.0);
    let text = e.eval(&Add, &[a.view(), many.view()]).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(
        text.starts_with("add(f64[2, 3], f64[100000] on cpu): shape [100000] cannot be broadcast"),
        "{text}"
    );
    assert!(text.contains("contract.rs"), "{text}");
    // Nothing says which memory an update is of.
    let (mean, ok) =
        (e.tensor([3], &[0f32; 3])?, e.from_host(&HostTensor::new(DType::Bool, [], vec![1.0])?)?);
    let into = e.eval(&RunningUpdate::default(), &[mean.view(), mean.view(), ok.view()]);
    let text = into.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(text.contains("this output to be its updated input"), "{text}");
    Ok(())
}

/// A view is read as its elements, in its order, whatever it is a view of.
#[test]
fn views_are_read_as_they_are() -> Result<(), Error> {
    let e = engine()?;
    let x = e.tensor([2, 3], &[1i64, 2, 3, 4, 5, (1 << 53) + 1])?;
    let turned = x.view().permute(&[1, 0])?;
    assert_eq!(turned.read::<i64>()?, [1, 4, 2, 5, 3, (1 << 53) + 1]);
    assert_eq!(turned.read_host()?.int(5), (1 << 53) + 1);
    assert_eq!(x.view().slice(0, 1, 1)?.slice(1, 1, 1)?.item::<i64>()?, 5);
    assert_eq!(x.view().slice(1, 0, 1)?.broadcast_to([2, 2, 2])?.read::<i64>()?, [1, 1, 4, 4, 1, 1, 4, 4]);
    let mut out = [0i64; 4];
    x.view().slice(1, 1, 2)?.read_into(&mut out)?;
    assert_eq!(out, [2, 3, 5, (1 << 53) + 1]);
    assert!(x.view().read_into(&mut out).is_err() && x.item::<i64>().is_err() && x.read::<f32>().is_err());
    assert!(e.empty(DType::F32, [0, 3])?.view().read::<f32>()?.is_empty());
    assert_eq!(
        x.to_string(),
        "i64[2, 3] on cpu\n[[               1                2                3]\n [               4                5 9007199254740993]]"
    );
    Ok(())
}
