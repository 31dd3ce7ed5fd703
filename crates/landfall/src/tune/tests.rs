//! What the tuner does with candidates that are wrong, with what the cache says, and with times.

use super::*;
use crate::case::{Case, cases};
use crate::contract::{Alias, Graph, Op, Spread, StateSpec, check};
use crate::engine::{State, Tensor};
use crate::gpu::gpu;
use crate::ops::{MatMul, table};
use crate::program::Program;
use crate::sanitizer::tests::fault::{Fault, Saboteur, Which};
use crate::values::{DType, Layout, Operand};
use std::path::PathBuf;

fn times(of: &[&[u64]]) -> Vec<Vec<Duration>> {
    of.iter().map(|t| t.iter().map(|&us| Duration::from_micros(us)).collect()).collect()
}

#[test]
fn only_what_is_clearly_faster_is_chosen() {
    let own: &[u64] = &[100, 101, 102, 103, 104, 105, 106, 107, 108];
    let clear: &[u64] = &[80, 81, 82, 83, 84, 85, 86, 87, 300];
    assert_eq!(faster(&times(&[own, clear])), 1);
    // A better median, in a spread as wide as the gain.
    let noisy: &[u64] = &[60, 62, 65, 70, 90, 110, 120, 130, 140];
    assert_eq!(faster(&times(&[own, noisy])), 0);
    // Steady, and not by enough.
    let close: &[u64] = &[99, 99, 99, 99, 99, 99, 99, 99, 99];
    assert_eq!(faster(&times(&[&[101; 9], close])), 0);
    assert_eq!(faster(&times(&[own, own])), 0);
    assert_eq!(faster(&times(&[own])), 0);
    // Of several the fastest.
    assert_eq!(faster(&times(&[own, clear, &[50; 9], noisy])), 2);
}

#[test]
fn quartiles_are_of_the_sorted_times() {
    let of = quartiles(&times(&[&[9, 1, 8, 2, 7, 3, 6, 4, 5]])[0]);
    assert_eq!(of.map(|d| d.as_micros()), [3, 5, 7]);
}

/// A device of the tests, in turn.
fn engines() -> Vec<Engine> {
    let own = Engine::cpu_with_threads(1).expect("the processor is there");
    let gpu = gpu().expect("a GPU that is there starts");
    std::iter::once(own).chain(gpu).collect()
}

/// Every way to put outputs into inputs, one beside the updates, that an op's rule permits.
fn sharings(case: &Case) -> Vec<Vec<Option<usize>>> {
    let updates: Vec<Option<usize>> = (0..case.outputs.len()).map(|j| case.updated(j)).collect();
    let mut all = vec![updates.clone()];
    for (j, output) in case.outputs.iter().enumerate() {
        let Alias::InPlace(which) = case.alias(j) else { continue };
        for &i in which.iter().filter(|&&i| case.inputs.get(i).is_some_and(|h| h.spec == *output)) {
            let mut shared = updates.clone();
            shared[j] = Some(i);
            all.push(shared);
        }
    }
    all
}

/// Operands that live, in tensors: each output in memory of its own, or in the input that it shares.
struct Live {
    tensors: Vec<Tensor>,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
}

impl Live {
    fn new(engine: &Engine, case: &Case, shared: &[Option<usize>]) -> Self {
        let mut tensors: Vec<Tensor> =
            case.inputs.iter().map(|h| engine.from_host(h).expect("memory")).collect();
        let inputs: Vec<Operand> = tensors.iter().map(|t| *t.view().operand()).collect();
        let mut outputs = Vec::new();
        for (spec, shared) in case.outputs.iter().zip(shared) {
            outputs.push(match shared {
                Some(i) => inputs[*i],
                None => {
                    tensors.push(engine.empty(spec.dtype, spec.shape).expect("memory"));
                    *tensors[tensors.len() - 1].view().operand()
                }
            });
        }
        Self { tensors, inputs, outputs }
    }

    /// All that they hold.
    fn bytes(&self, engine: &Engine) -> Vec<Vec<u8>> {
        let read = |t: &Tensor| {
            let mut bytes = vec![0; t.spec().bytes()];
            engine.handle().download(t.view().operand(), &mut bytes).expect("readable");
            bytes
        };
        self.tensors.iter().map(read).collect()
    }
}

#[test]
fn r31_tuning_leaves_live_operands_alone() {
    for engine in engines() {
        let (mut tuned_ops, mut calls) = (Vec::new(), 0);
        for op in table() {
            let mut all = cases(op.as_ref()).expect("samples");
            if engine.device() == DeviceKind::Cpu {
                // The processor's candidates are the same in every dtype.
                all.dedup_by_key(|case| case.sample);
            }
            for case in all {
                for shared in sharings(&case) {
                    let live = Live::new(&engine, &case, &shared);
                    let before = live.bytes(&engine);
                    let op: Arc<dyn Op> = case.op.clone();
                    let tuned = TuningCase::new(&op, &live.inputs, &live.outputs);
                    if !tuned.tunable(&engine) {
                        continue;
                    }
                    let found = tune(&engine, &[tuned], None, false).expect("tuned");
                    assert!(
                        live.bytes(&engine) == before,
                        "{case}, outputs in inputs {shared:?}: bytes changed"
                    );
                    calls += 1;
                    if !found.rows.is_empty() && !tuned_ops.contains(&op.name()) {
                        tuned_ops.push(op.name());
                    }
                }
            }
        }
        println!("{}: {calls} calls, tuned: {}", engine.device(), tuned_ops.join(", "));
        assert!(tuned_ops.contains(&"matmul") && tuned_ops.contains(&"grouped_matmul"), "{tuned_ops:?}");
    }
}

/// A product of two `[256, 256]`, at addresses that nobody may follow.
fn product() -> TuningCase {
    let at = |base: u64, dims: [usize; 2]| Operand {
        base: Address(base),
        dtype: DType::F32,
        layout: Layout::contiguous(dims.into()),
    };
    let op: Arc<dyn Op> = Arc::new(MatMul::default());
    TuningCase::new(&op, &[at(1 << 40, [256, 256]), at(2 << 40, [256, 256])], &[at(3 << 40, [256, 256])])
}

/// A candidate that is spoilt in any way is rejected, whatever its times; the others are not.
#[test]
fn a_wrong_candidate_is_rejected() {
    let faults = [
        Fault::Tail { output: 0 },
        Fault::Shift(Which::Output(0)),
        Fault::Shift(Which::Input(0)),
        Fault::Alias { output: 0, input: 0, shift: 0 },
        // Sound in every way, and another product: only its results tell.
        Fault::Swap(Which::Input(0), Which::Input(1)),
    ];
    let bare = Engine::cpu_with_threads(1).expect("the processor is there");
    let saboteur = Saboteur::new(Arc::clone(bare.bare()));
    let engine = Engine::over(Arc::<Saboteur>::clone(&saboteur));
    for fault in faults {
        saboteur.arm_kernel("product_rows_96", fault);
        let tuned = tune(&engine, &[product()], None, false).expect("tuned");
        let [row] = &tuned.rows[..] else { panic!("one instruction: {tuned:?}") };
        assert!(row.candidates.len() > 2, "{row:?}");
        for candidate in &row.candidates {
            let spoilt = candidate.kernel == "product_rows_96";
            assert_eq!(candidate.rejected(), spoilt, "{fault:?}: {candidate:?}");
        }
        assert_ne!(row.candidates[row.chosen].kernel, "product_rows_96");
        assert_eq!(tuned.choices.kernels[&row.instruction], row.candidates[row.chosen].kernel);
    }
}

/// An empty folder, and its removal.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("landfall-tuned-{name}-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    /// The one file in it.
    fn file(&self) -> PathBuf {
        let files: Vec<_> = std::fs::read_dir(&self.0).expect("it was made").collect();
        let [file] = &files[..] else { panic!("one file: {files:?}") };
        file.as_ref().expect("readable").path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_kept_is_confirmed_and_taken() {
    let (engine, folder) = (Engine::cpu_with_threads(1).expect("the processor"), Folder::new("kept"));
    let cache = Cache::at(&folder.0);
    let first = tune(&engine, &[product(), product()], Some(&cache), false).expect("tuned");
    assert!(!first.rows[0].cached && first.rows[0].count == 2 && first.notices.is_empty(), "{first:?}");
    let second = tune(&engine, &[product()], Some(&cache), false).expect("tuned");
    assert!(second.rows[0].cached && second.notices.is_empty(), "{second:?}");
    assert_eq!(second.choices, first.choices);
    let again = tune(&engine, &[product()], Some(&cache), true).expect("tuned");
    assert!(!again.rows[0].cached && again.notices.is_empty(), "{again:?}");
}

/// A file that was cut off or changed, or that another build or driver wrote, is made anew, and a person is told.
#[test]
fn what_is_damaged_or_stale_is_tuned_anew() {
    let (engine, folder) = (Engine::cpu_with_threads(1).expect("the processor"), Folder::new("damaged"));
    let cache = Cache::at(&folder.0);
    tune(&engine, &[product()], Some(&cache), false).expect("tuned");
    let whole = std::fs::read(folder.file()).expect("readable");
    let text = String::from_utf8(whole.clone()).expect("it is text");
    let kernel = text.lines().find(|l| l.contains("\"kernel\"")).expect("an entry").to_owned();
    let other = if kernel.contains("product_rows_96") { "\"product\"" } else { "\"product_rows_96\"" };
    let changed = text.replace(&kernel, &format!("    \"kernel\": {other}"));
    for (what, bytes) in [
        ("empty", Vec::new()),
        ("cut off", whole[..whole.len() / 2].to_vec()),
        ("another kernel", changed.into_bytes()),
        ("no text", vec![0xFF; 100]),
    ] {
        std::fs::write(folder.file(), bytes).expect("writable");
        let tuned = tune(&engine, &[product()], Some(&cache), false).expect("tuned");
        assert!(matches!(tuned.notices[..], [Notice::Damaged { .. }]), "{what}: {:?}", tuned.notices);
        assert!(!tuned.rows[0].cached, "{what}");
        assert!(tune(&engine, &[product()], Some(&cache), false).expect("tuned").rows[0].cached, "{what}");
    }
    for (field, what) in [("driver", "driver"), ("sources", "build"), ("kernel", "no kernel")] {
        cache::rewrite(&folder.file(), field, "another");
        let tuned = tune(&engine, &[product()], Some(&cache), false).expect("tuned");
        let [notice @ Notice::Stale { .. }] = &tuned.notices[..] else {
            panic!("{field}: {:?}", tuned.notices)
        };
        assert!(notice.to_string().contains(what), "{notice}");
        assert!(!tuned.rows[0].cached, "{field}");
    }
}

/// A choice that is kept and gives wrong results by now is not taken.
#[test]
fn what_is_kept_is_not_believed() {
    let folder = Folder::new("believed");
    let bare = Engine::cpu_with_threads(1).expect("the processor is there");
    let saboteur = Saboteur::new(Arc::clone(bare.bare()));
    let engine = Engine::over(Arc::<Saboteur>::clone(&saboteur));
    let cache = Cache::at(&folder.0);
    tune(&engine, &[product()], Some(&cache), false).expect("tuned");
    cache::rewrite(&folder.file(), "kernel", "product_rows_96");
    let kept = tune(&engine, &[product()], Some(&cache), false).expect("tuned");
    assert!(kept.rows[0].cached && kept.choices.kernels.values().eq(["product_rows_96"]), "{kept:?}");
    saboteur.arm_kernel("product_rows_96", Fault::Tail { output: 0 });
    let tuned = tune(&engine, &[product()], Some(&cache), false).expect("tuned");
    assert!(matches!(tuned.notices[..], [Notice::Stale { .. }]), "{:?}", tuned.notices);
    assert!(!tuned.rows[0].cached && !tuned.choices.kernels.values().any(|k| k == "product_rows_96"));
}

#[test]
fn the_null_device_has_nothing_to_tune() {
    let tuned = tune(&Engine::null(), &[product()], None, false).expect("nothing");
    assert_eq!((tuned.rows.len(), &tuned.notices[..]), (0, &[Notice::Null][..]));
}

/// Programs take what is pinned, show it, and refuse what there is not; choices of another build hold for none.
#[test]
fn programs_take_what_is_pinned() {
    let engine = Engine::cpu_with_threads(1).expect("the processor is there");
    let spec = Arc::new(StateSpec::new());
    let graph = Graph::new(&spec);
    let (x, w) = (graph.input("x", DType::F32, [300, 128]), graph.input("w", DType::F32, [128, 128]));
    graph.output("y", graph.matmul(x, w).expect("a product"));
    let state = State::new(&engine, &spec).expect("memory");
    let plain = Program::compile(&engine, &state, "plain", &graph).expect("compiled");
    assert!(plain.report().pinned.is_empty());
    let mut choices = tune(&engine, &plain.tuning_cases(), None, false).expect("tuned").choices;
    assert_eq!(choices.foreign(&engine).expect("hardware"), None);
    for kernel in choices.kernels.values_mut() {
        *kernel = "product_rows_96".to_owned();
    }
    let with =
        |choices: &Choices| Program::compile(&engine.with_choices(choices.clone()), &state, "pinned", &graph);
    let pinned = with(&choices).expect("compiled").report().pinned;
    assert_eq!(pinned, [(0, "matmul".to_owned(), "product_rows_96".to_owned())]);
    for kernel in choices.kernels.values_mut() {
        *kernel = "product_rows_7".to_owned();
    }
    let why = with(&choices).expect_err("there is no such kernel").to_string();
    assert!(why.contains("product_rows_7 is pinned for matmul") && why.contains("it has product, "), "{why}");
    choices.sources = "another".to_owned();
    let why = choices.foreign(&engine).expect("hardware").expect("of another build");
    assert!(why.contains("its build was"), "{why}");
}

/// Indices are valid however they are spread, and none where nobody knows which are.
#[test]
fn indices_are_spread_as_asked() {
    assert_eq!(Spread::Uniform.parts(10, 4), [2, 3, 2, 3]);
    let zipf = Spread::Zipf.parts(1000, 4);
    assert!(zipf.is_sorted_by(|a, b| a > b) && zipf[0] > 3 * zipf[3], "{zipf:?}");
    for (count, of) in [(0, 3), (1, 5), (7, 1), (1000, 64)] {
        for spread in [Spread::Uniform, Spread::Zipf] {
            assert_eq!(spread.parts(count, of).iter().sum::<usize>(), count, "{count} of {of}");
        }
    }
}

/// What an op says of its indices is valid: its own kernel flags none of them, and does something with them.
#[test]
fn indices_of_trials_are_valid() {
    for engine in engines() {
        let mut with_indices = Vec::new();
        for op in table() {
            for case in cases(op.as_ref()).expect("samples") {
                let live = Live::new(&engine, &case, &sharings(&case)[0]);
                let op: Arc<dyn Op> = case.op.clone();
                let tuned = TuningCase::new(&op, &live.inputs, &live.outputs);
                let Some(spreads @ [Spread::Uniform, Spread::Zipf]) = tuned.spreads() else { continue };
                let own = check::kernel(case.op.as_ref(), engine.device(), &case.specs()).expect("a kernel");
                let bench = Bench::new(&tuned, engine.bare(), own, &[own], spreads);
                assert!(bench.is_ok(), "{case}: {:?}", bench.err());
                if !with_indices.contains(&op.name()) {
                    with_indices.push(op.name());
                }
            }
        }
        let all = [
            "gather",
            "grouped_matmul",
            "grouped_matmul_grad",
            "permute",
            "scatter_add",
            "sort_chunks",
            "unpermute",
            "unpermute_grad",
        ];
        assert_eq!(with_indices, all);
    }
}
