//! Batch norm with the statistics of all ranks' rows: ranks make the step of one rank on the same batch.

mod small;
mod together;

use landfall::{DType, Engine, Error};
use landfall_forecast::run::Settings;
use landfall_train::data::Segment;
use landfall_train::models::ModelConfig;
use landfall_train::nn::{Linear, Norm, NormKind, Parameters, loss};
use landfall_train::train::{Arrays, OptimizerKind, Trainer, TrainingOptions};
use small::{cross_asset, patchtst, session};
use together::{Failed, together};

const BATCH: usize = 48;
const STEPS: usize = 6;

/// Every tensor that steps update, with its name; loss and norm of each step; the error on the test windows.
type Trained = (Vec<(String, Vec<f64>)>, Vec<f64>, f64);

fn trained(engine: &Engine, model: &ModelConfig, options: &TrainingOptions) -> Result<Trained, Failed> {
    let options = TrainingOptions { batch: BATCH, lr: 1e-3, ..options.clone() };
    let mut session = session(engine, model, options).map_err(|e| e.to_string())?;
    (0..STEPS).try_for_each(|_| session.step())?;
    let records = session.records(1, STEPS)?.iter().flat_map(|r| [r.loss, r.grad_norm]).collect();
    let slabs = session.state.spec().slabs().iter().filter(|s| ["parameters", "buffers"].contains(&&*s.name));
    let names: Vec<String> = slabs.flat_map(|s| &s.entries).map(|e| e.name.clone()).collect();
    let read = |name: String| session.state.read_host(&name).map(|value| (name, value.data));
    let entries = names.into_iter().map(read).collect::<Result<_, Error>>()?;
    Ok((entries, records, session.evaluate(Segment::Test)?.errors().0))
}

/// The largest difference: of tensors, relative to the largest element; and of what steps report.
fn differs(a: &Trained, b: &Trained) -> [f64; 2] {
    let entries = a.0.iter().zip(&b.0).map(|((name, a), (of, b))| {
        assert_eq!(name, of);
        let largest = b.iter().fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
        a.iter().zip(b).fold(0.0f64, |m, (x, y)| m.max((x - y).abs())) / largest
    });
    let records = a.1.iter().zip(&b.1).map(|(a, b)| (a - b).abs() / b.abs());
    [entries.fold(0.0, f64::max), records.chain([(a.2 - b.2).abs() / b.2]).fold(0.0, f64::max)]
}

#[test]
fn ranks_make_the_steps_of_one() {
    let model = patchtst(NormKind::Batch, 0.0).expect("a PatchTST");
    for dtype in [DType::F64, DType::F32] {
        // The gradient of a bias before a batch norm is 0. In f32 it is rounding, which Adam makes steps of; they change no result.
        let near = |[entries, records]: [f64; 2]| {
            if dtype == DType::F64 { entries.max(records) / 1e-9 } else { records / 1e-4 }
        };
        let options =
            |sync_batch_norm| TrainingOptions { dtype, sync_batch_norm, ..TrainingOptions::default() };
        let one = Engine::cpu_with_threads(1).expect("an engine");
        let expected = trained(&one, &model, &options(false)).expect("steps");
        for size in [2, 3, 8] {
            let all: Vec<Trained> = together(size, |engine| trained(engine, &model, &options(true)))
                .into_iter()
                .map(|got| got.expect("every rank trains"))
                .collect();
            let off = differs(&all[0], &expected);
            println!("{dtype} on {size} ranks: {off:?}");
            assert!(near(off) < 1.0, "{dtype} on {size} ranks: {off:?}");
            assert!(all.iter().all(|got| *got == all[0]), "ranks differ from one another");
            // Without it, each rank's part is a batch of its own.
            let apart = together(size, |engine| trained(engine, &model, &options(false))).swap_remove(0);
            let off = differs(&apart.expect("steps"), &expected);
            assert!(near(off) > 10.0, "{dtype} on {size} ranks: {off:?}");
        }
    }
}

/// Alone there is nobody to ask: the same program.
#[test]
fn one_rank_has_the_bytes_of_one_without() {
    let model = patchtst(NormKind::Batch, 0.2).expect("a PatchTST");
    let one = Engine::cpu_with_threads(1).expect("an engine");
    let run = |sync_batch_norm| {
        let options = TrainingOptions { sync_batch_norm, ..TrainingOptions::default() };
        trained(&one, &model, &options).expect("steps")
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_model_without_batch_norm_trains_the_same() {
    let run = |sync_batch_norm| {
        let options = TrainingOptions { sync_batch_norm, ..TrainingOptions::default() };
        let all = together(2, |engine| trained(engine, &cross_asset(0.2), &options));
        all.into_iter().map(|got| got.expect("every rank trains")).collect::<Vec<_>>()
    };
    assert_eq!(run(true), run(false));
}

/// In 16 bits, with dropout, with and without shards of the optimizer's state: ranks agree with one another.
#[test]
fn ranks_agree_in_every_combination() {
    let model = patchtst(NormKind::Batch, 0.2).expect("a PatchTST");
    for dtype in [DType::BF16, DType::F16] {
        let options = |shard_optimizer| TrainingOptions {
            dtype,
            sync_batch_norm: true,
            shard_optimizer,
            ..TrainingOptions::default()
        };
        let run = |shard| together(2, |engine| trained(engine, &model, &options(shard)));
        let (whole, shared) = (run(false), run(true));
        let first = whole[0].as_ref().expect("steps");
        assert!(first.1.iter().all(|x| x.is_finite() && *x > 0.0));
        for got in whole.iter().chain(&shared) {
            assert_eq!(got.as_ref().expect("steps"), first);
        }
    }
}

/// Running mean and variance of columns far from zero, the second of which differs from rank to rank.
fn running(engine: &Engine, sync_batch_norm: bool) -> Result<[Vec<f64>; 2], Failed> {
    let x: Vec<f64> = (0..24).flat_map(|i| [1e6 + f64::from(i % 3), f64::from(i / 6) * 50.0]).collect();
    let data = Arrays::new().with("x", [24, 2], x)?.with("y", [24, 1], vec![0.0f64; 24])?;
    let mut p = Parameters::new();
    let norm = Norm::new(&mut p, "norm", NormKind::Batch, 2);
    let last = Linear::new(&mut p, "last", 2, 1);
    let options = TrainingOptions {
        batch: 24,
        dtype: DType::F64,
        optimizer: OptimizerKind::Sgd,
        order: landfall_train::train::Order::Sequential,
        sync_batch_norm,
        ..TrainingOptions::default()
    };
    let mut t = Trainer::new(engine, &p, &data, options, |cx, batch| {
        loss::mse(cx.graph, last.forward(cx, norm.forward(cx, batch.get("x")?)?)?, batch.get("y")?)
    })?;
    t.step()?;
    Ok([t.state.read("norm.running_mean")?, t.state.read("norm.running_var")?])
}

#[test]
fn running_statistics_are_those_of_all_rows() {
    let one = Engine::cpu_with_threads(1).expect("an engine");
    let [mean, variance] = running(&one, false).expect("a step");
    for size in [2, 4] {
        for got in together(size, |engine| running(engine, true)) {
            let got = got.expect("a step");
            for (a, b) in got.iter().flatten().zip(mean.iter().chain(&variance)) {
                assert!((a - b).abs() <= 1e-9 * b.abs(), "{got:?} {mean:?} {variance:?}");
            }
        }
        let apart = together(size, |engine| running(engine, false)).swap_remove(0).expect("a step");
        assert!(apart[1][1] < 0.8 * variance[1], "{apart:?} {variance:?}");
    }
}

#[test]
fn what_has_no_statistics_of_a_whole_batch_is_refused() {
    let model = patchtst(NormKind::Batch, 0.0).expect("a PatchTST");
    let options = TrainingOptions { sync_batch_norm: true, accumulate: 2, ..TrainingOptions::default() };
    let one = Engine::cpu_with_threads(1).expect("an engine");
    let error = trained(&one, &model, &options).expect_err("micro-batches").to_string();
    assert!(error.contains("sync_batch_norm is 1; it must be off with accumulate above 1"), "{error}");
    let told = |text: &str| {
        let settings: Settings = toml::from_str(text).expect("settings");
        settings.resolve().map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(told("preset = \"patchtst-64\"\nsync-batch-norm = true\n"), Ok(()));
    assert_eq!(
        told("preset = \"patchtst-64\"\nsync-batch-norm = true\naccumulate = 2\n"),
        Err("sync-batch-norm and accumulate = 2: micro-batches run one after another, so none has the statistics of all; \
             leave one of them out"
            .to_owned())
    );
    assert_eq!(
        told("preset = \"patchtst-64\"\nsync-batch-norm = true\nrank-order = true\n"),
        Err("sync-batch-norm and rank-order: the sums of its statistics' gradients have the order of the transport; \
             leave one of them out"
            .to_owned())
    );
    assert_eq!(
        told("preset = \"dlinear\"\nsync-batch-norm = true\n"),
        Err("sync-batch-norm and model = \"dlinear\": it has no batch norm as it is set; leave it out"
            .to_owned())
    );
}
