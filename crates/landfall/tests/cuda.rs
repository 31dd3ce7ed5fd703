//! The contract on a GPU, beyond what the generated suite checks: counts, capture, faults, and a user's own kernels.

#[path = "device/gpu.rs"]
mod gpu;
#[path = "device/large.rs"]
mod large;

use gpu::gpu;
use landfall::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source};
use landfall::ops::{Body, Kernel, Op, Output, Outputs};
use landfall::{DType, DeviceKind, Engine, Error, Graph, Program, Rule, Spec, State, StateSpec, cuda_kernel};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

type Check = Result<(), Box<dyn std::error::Error>>;

/// An op of a user's own on f32, with its own CUDA source: `out = 2·x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twice {
    /// Well made.
    Good,
    /// Its launch asks for more shared memory than there is.
    Greedy,
    /// Its source declares a kernel that it does not define.
    Missing,
    /// Its source does not compile.
    Broken,
    /// It reports an index.
    Faulty,
}

cuda_kernel! {
    /// A thread doubles an element.
    struct Double = "twice", 256;
    x: input_of F32,
    out: output_of F32,
    n: size,
}

cuda_kernel! {
    /// A thread copies an element, and one reports an index.
    struct Flagging = "faulty", 256;
    x: input_of F32,
    out: output_of F32,
    n: size,
    faults: faults,
}

const TWICE: Piece = Piece::new(
    "twice",
    "KERNEL(twice) {\n    u64 i = thread_index();\n    if (i < n) out[i] = 2.0f * x[i];\n}\n",
);
static GOOD: Source = Source { name: "twice", pieces: &[TWICE], entries: &[Double::KERNEL] };
static MISSING: Source = Source { pieces: &[], ..GOOD };
static BROKEN: Source =
    Source { pieces: &[Piece::new("twice", "KERNEL(twice) { undeclared(n); }\n")], ..GOOD };
static FAULTY: Source = Source {
    name: "faulty",
    pieces: &[Piece::new(
        "faulty",
        "KERNEL(faulty) {\n    u64 i = thread_index();\n    if (i == 3) flag(faults, i, -7, n);\n    if (i < n) out[i] = x[i];\n}\n",
    )],
    entries: &[Flagging::KERNEL],
};

fn twice(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = landfall::ops::attributes::<Twice>(op)?;
    let (x, out) = (*call.input(0)?, *call.output(0)?);
    let n = x.spec().shape.elements();
    let mut geometry = Geometry::linear(n, 256)?;
    let source = match op {
        Twice::Good => &GOOD,
        Twice::Greedy => {
            geometry.shared = 1 << 20;
            &GOOD
        }
        Twice::Missing => &MISSING,
        Twice::Broken => &BROKEN,
        Twice::Faulty => {
            let args = Flagging { x: &x, out: &out, n, faults: () };
            return call.launch(&Module::new(&FAULTY), geometry, &args);
        }
    };
    call.launch(&Module::new(source), geometry, &Double { x: &x, out: &out, n })
}

landfall::op_attributes! { impl Twice(x); }

impl Op for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("it exists for tests")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const { &[Kernel::cuda("twice", twice)] }
    }
}

const N: usize = 1000;

fn numbers() -> Vec<f32> {
    (0..N).map(|i| i as f32 * 0.25 - 100.0).collect()
}

/// A step on a state: `w = −w + x` in two updates through the arena, with an output.
fn step(engine: &Engine) -> Result<(Program, State), Error> {
    let spec = Arc::new(StateSpec::new());
    let state = State::new(engine, &spec)?;
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F32, [N]);
    let y = g.input("y", DType::F32, [N]);
    let a = g.tanh(g.mul(x, y)?)?;
    let b = g.exp(g.add(a, y)?)?;
    let c = g.op1(Twice::Good, &[g.mul(b, a)?])?;
    g.output("out", g.sub(c, a)?);
    let mut program = Program::compile(engine, &state, "step", &g)?;
    program.write("x", &numbers())?;
    program.write("y", &numbers().iter().map(|v| v * 0.01).collect::<Vec<f32>>())?;
    Ok((program, state))
}

/// Without a GPU the error names what is missing and what to do; with one, a number beyond the last does.
#[test]
fn absence_is_an_error_that_says_what_to_do() {
    let told = Engine::cuda(999).map(|_| ()).map_err(|e| e.to_string());
    let said = |t: &String| {
        t.starts_with("CUDA: ")
            && (t.contains("install") || t.contains("CUDA_VISIBLE_DEVICES") || t.contains("nvidia-smi"))
    };
    assert!(told.as_ref().is_err_and(said), "{told:?}");
}

#[test]
fn cuda_counts_what_it_does() -> Check {
    if gpu()?.is_none() {
        return Ok(());
    }
    let engine = Engine::cuda(0)?;
    let x = engine.tensor([N], &numbers())?;
    let mut out = engine.empty(DType::F32, [N])?;
    let before = engine.counters();
    engine.call(&landfall::ops::Neg, &[x.view()], &mut [out.view_mut()])?;
    let after = engine.counters();
    assert_eq!((after.launches - before.launches, after.allocations - before.allocations), (1, 0));
    assert_eq!(after.host_transfers, before.host_transfers);
    assert_eq!(out.read::<f32>()?, numbers().iter().map(|v| -v).collect::<Vec<f32>>());
    assert_eq!(engine.counters().host_transfers, before.host_transfers + 1);
    drop((x, out));
    assert_eq!(engine.counters().bytes_in_use, 0);
    Ok(())
}

/// A call that came before runs again as it ran, and is counted; any other one on the same memory is checked as ever.
#[test]
fn cuda_makes_calls_again() -> Check {
    let Some(engine) = gpu()? else { return Ok(()) };
    let engine = gpu::own(&engine)?;
    let mut x = engine.tensor([N], &numbers())?;
    let mut out = engine.empty(DType::F32, [N])?;
    for round in 1..=5u8 {
        let now: Vec<f32> = numbers().iter().map(|v| v * f32::from(round)).collect();
        x.write(&now)?;
        let before = engine.counters().launches;
        engine.call(&landfall::ops::Add, &[x.view(), x.view()], &mut [out.view_mut()])?;
        assert_eq!(engine.counters().launches, before + 1, "round {round}");
        assert_eq!(out.read::<f32>()?, now.iter().map(|v| v + v).collect::<Vec<f32>>(), "round {round}");
    }
    let sub = landfall::ops::Sub;
    engine.call(&sub, &[x.view(), x.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<f32>()?, vec![0.0; N]);
    let half = x.view().slice(0, 0, N / 2)?;
    let told = engine.call(&landfall::ops::Add, &[half, half], &mut [out.view_mut()]);
    assert!(told.is_err_and(|e| e.to_string().contains("add")), "half of the elements, and room for all");
    // Memory that they leave goes to tensors of another dtype, and the same op on them is another call.
    drop((x, out));
    let ones = engine.tensor([2 * N], &vec![half::bf16::ONE; 2 * N])?;
    let mut out = engine.empty(DType::BF16, [2 * N])?;
    for _ in 0..3 {
        engine.call(&landfall::ops::Add, &[ones.view(), ones.view()], &mut [out.view_mut()])?;
        assert_eq!(out.read::<half::bf16>()?, vec![half::bf16::from_f32(2.0); 2 * N]);
    }
    Ok(())
}

#[test]
fn cuda_runs_a_users_own_kernel() -> Check {
    let Some(engine) = gpu()? else { return Ok(()) };
    let x = engine.tensor([N], &numbers())?;
    let mut out = engine.empty(DType::F32, [N])?;
    engine.call(&Twice::Good, &[x.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<f32>()?, numbers().iter().map(|v| 2.0 * v).collect::<Vec<f32>>());
    Ok(())
}

/// Regression 20: a program that is asked to replay a graph does: one launch from the host a step, nothing else.
#[test]
fn cuda_r20_a_step_is_one_launch() -> Check {
    if gpu()?.is_none() {
        return Ok(());
    }
    let engine = Engine::cuda(0)?;
    let (mut program, mut state) = step(&engine)?;
    program.issue(&mut state)?;
    let issued: Vec<f32> = program.read("out")?;
    program.poison(&mut state, 0xFF)?;
    let before = engine.counters();
    for _ in 0..100 {
        program.run(&mut state)?;
    }
    let after = engine.counters();
    assert_eq!((after.launches - before.launches, after.replays - before.replays), (100, 100));
    assert_eq!((after.allocations, after.host_transfers), (before.allocations, before.host_transfers));
    assert_eq!(program.read::<f32>("out")?, issued);
    assert!(issued.iter().all(|v| v.is_finite()));
    Ok(())
}

/// A profile replays a graph of the same nodes with events between them, twice, and leaves what runs leave.
#[test]
fn cuda_profiles_the_replayed_graph() -> Check {
    let Some(engine) = gpu()? else { return Ok(()) };
    let engine = gpu::own(&engine)?;
    let (mut program, mut state) = step(&engine)?;
    program.run(&mut state)?;
    let wanted = program.read::<f32>("out")?;
    let profile = program.profile(&mut state, 5)?;
    assert_eq!((&profile.timed, program.runs()), (&landfall::profile::Timed::Graph, 1 + 2 * (5 + 1)));
    let nodes = profile.rows.iter().flat_map(|row| &row.nodes).map(|node| node.kernel);
    assert_eq!(nodes.filter(|kernel| *kernel == "twice").count(), 1, "{profile}");
    assert!(profile.rows.iter().flat_map(|row| &row.nodes).any(|node| !node.time.is_zero()), "{profile}");
    assert_eq!(program.read::<f32>("out")?, wanted);
    program.run(&mut state)?;
    assert_eq!(program.read::<f32>("out")?, wanted);
    Ok(())
}

/// Regression 12: memory that comes and goes between replays, and is poisoned when it goes, changes nothing.
#[test]
fn cuda_r12_replays_with_churn() -> Check {
    if gpu()?.is_none() {
        return Ok(());
    }
    let engine = Engine::cuda(0)?;
    let (mut program, mut state) = step(&engine)?;
    program.issue(&mut state)?;
    let want: Vec<f32> = program.read("out")?;
    for i in 0..2560 {
        let mut churn = engine.empty(DType::F32, [1 + (i * 37) % 5000])?;
        churn.poison(0xFF)?;
        drop(churn);
        program.run(&mut state)?;
        if i % 256 == 0 {
            assert_eq!(program.read::<f32>("out")?, want, "replay {i}");
        }
    }
    assert_eq!(program.read::<f32>("out")?, want);
    Ok(())
}

/// Regression 18: an error inside a capture names the op and leaves the engine usable.
#[test]
fn cuda_r18_an_error_in_a_capture() -> Check {
    if gpu()?.is_none() {
        return Ok(());
    }
    let engine = Engine::cuda(0)?;
    let spec = Arc::new(StateSpec::new());
    let state = State::new(&engine, &spec)?;
    let g = Graph::new(&spec);
    let x = g.input("x", DType::F32, [N]);
    g.output("out", g.neg(g.op1(Twice::Greedy, &[x])?)?);
    let told = Program::compile(&engine, &state, "greedy", &g).map(|_| ()).map_err(|e| e.to_string());
    assert!(told.as_ref().is_err_and(|t| t.contains("twice could not be captured")), "{told:?}");
    let (mut program, mut state) = step(&engine)?;
    program.run(&mut state)?;
    let got: Vec<f32> = program.read("out")?;
    program.issue(&mut state)?;
    assert_eq!(program.read::<f32>("out")?, got);
    Ok(())
}

/// Regression 21: an engine's captures leave another engine of the same GPU alone.
#[test]
fn cuda_r21_two_engines() -> Check {
    if gpu()?.is_none() {
        return Ok(());
    }
    let (one, two) = (Engine::cuda(0)?, Engine::cuda(0)?);
    let capturing = std::thread::spawn(move || (0..20).try_for_each(|_| step(&one).map(|_| ())));
    let want: Vec<f32> = numbers().iter().map(|v| -v).collect();
    for _ in 0..200 {
        let x = two.tensor([N], &numbers())?;
        let mut out = two.empty(DType::F32, [N])?;
        two.call(&landfall::ops::Neg, &[x.view()], &mut [out.view_mut()])?;
        assert_eq!(out.read::<f32>()?, want);
    }
    capturing.join().map_err(|_| "the capturing thread panicked")??;
    Ok(())
}

/// Regression 21, the other way: engines that come, use the matrix library and go spoil no capture of another one. (The
/// driver's waits for a whole context do, on whatever thread.)
#[test]
fn cuda_r21_captures_while_engines_come_and_go() -> Check {
    let Some(engine) = gpu()? else { return Ok(()) };
    let (over, gone) = (AtomicBool::new(false), AtomicUsize::new(0));
    let come_and_go = || -> Result<(), Error> {
        while !over.load(Relaxed) {
            let other = Engine::cuda(0)?;
            let x = other.tensor([16, 16], &[1.0f32; 256])?;
            let mut out = other.empty(DType::F32, [16, 16])?;
            let product = landfall::ops::MatMul::default();
            other.reserve(other.workspace(&product, &[x.spec(), x.spec()])?)?;
            other.call(&product, &[x.view(), x.view()], &mut [out.view_mut()])?;
            assert_eq!(out.read::<f32>()?, [16.0; 256]);
            drop((x, out, other));
            gone.fetch_add(1, Relaxed);
        }
        Ok(())
    };
    let (captured, others) = std::thread::scope(|scope| {
        let others = [scope.spawn(come_and_go), scope.spawn(come_and_go)];
        let (mut captures, mut captured) = (0, Ok(()));
        // Until many engines went, however long one takes; an engine that fails ends it too.
        while captured.is_ok()
            && (captures < 500 || gone.load(Relaxed) < 100)
            && !others.iter().any(|other| other.is_finished())
        {
            captured = step(&engine).map(drop);
            captures += 1;
        }
        over.store(true, Relaxed);
        (captured, others.map(|other| other.join()))
    });
    captured?;
    for other in others {
        other.map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

/// Regression 33: a kernel that is not in its source is found when the source is loaded.
#[test]
fn cuda_r33_a_missing_kernel() -> Check {
    let Some(engine) = gpu()? else { return Ok(()) };
    let x = engine.tensor([N], &numbers())?;
    let mut out = engine.empty(DType::F32, [N])?;
    let mut told =
        |op: Twice| engine.call(&op, &[x.view()], &mut [out.view_mut()]).map_err(|e| e.to_string());
    let missing = told(Twice::Missing);
    assert!(missing.as_ref().is_err_and(|t| t.contains("compiled without the kernel twice")), "{missing:?}");
    let broken = told(Twice::Broken);
    assert!(
        broken.as_ref().is_err_and(|t| t.contains("twice.cu(1)") && t.contains("undeclared")),
        "{broken:?}"
    );
    Ok(())
}

/// An index out of range that a kernel reports is an error of the next read, once; also from a replay.
#[test]
fn cuda_reports_indices() -> Check {
    if gpu()?.is_none() {
        return Ok(());
    }
    let engine = Engine::cuda(0)?;
    let x = engine.tensor([N], &numbers())?;
    let mut out = engine.empty(DType::F32, [N])?;
    engine.call(&Twice::Faulty, &[x.view()], &mut [out.view_mut()])?;
    let fault = Error::Index { op: "twice", position: 3, value: -7, limit: N };
    assert_eq!(out.read::<f32>(), Err(fault.clone()));
    assert_eq!(out.read::<f32>(), Err(fault.clone()), "until it is overwritten");
    assert_eq!(x.read::<f32>()?, numbers());
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(&engine, &spec)?;
    let g = Graph::new(&spec);
    g.output("out", g.op1(Twice::Faulty, &[g.input("x", DType::F32, [N])])?);
    let mut program = Program::compile(&engine, &state, "faulty", &g)?;
    program.write("x", &numbers())?;
    program.run(&mut state)?;
    assert_eq!(program.read::<f32>("out"), Err(fault.clone()));
    assert_eq!(program.read::<f32>("out"), Err(fault));
    Ok(())
}
