//! Ranks that train together: each takes its part of every batch, and all make the update that one rank makes of the whole batch.

mod small;
mod together;

use landfall::{DType, Engine, Error, Value, World};
use landfall_train::data::{Segment, Split, synthetic};
use landfall_train::models::{DLinear, DLinearConfig, Model, ModelConfig};
use landfall_train::nn::{Context, ExpertParallel, Linear, MoeConfig, MoeFeedForward, NormKind, Parameters};
use landfall_train::train::{Dataset, Session, TrainingOptions};
use small::{cross_asset, patchtst};
use std::time::Duration;
use together::{Failed, together};

/// Divided by 2, 3 and 8 ranks of two micro-batches each.
const BATCH: usize = 48;
const STEPS: usize = 8;

/// Windows of 24 rows are the tokens; what the experts say of one is added to it before the last map.
struct Mixture(Parameters, Experts, Linear);

/// Experts that every rank computes, or that are shared out among the ranks.
enum Experts {
    Replicated(MoeFeedForward),
    Shared(ExpertParallel),
}

impl Model for Mixture {
    fn parameters(&self) -> &Parameters {
        &self.0
    }
    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.0
    }
    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let mixed = match &self.1 {
            Experts::Replicated(layer) => layer.forward(cx, x)?,
            Experts::Shared(layer) => layer.forward(cx, x)?,
        };
        self.2.forward(cx, cx.graph.add(x, mixed.y)?)
    }
}

/// What is trained.
#[derive(Debug, Clone)]
enum Kind {
    Listed(ModelConfig),
    /// Whether its experts are shared out.
    Mixture(bool),
    /// Two maps of 8 MiB each, so that their gradients are several buckets.
    Large,
}

fn session(engine: &Engine, kind: &Kind, options: TrainingOptions) -> Result<Session, Failed> {
    let options = TrainingOptions { batch: BATCH, ..options };
    match kind {
        Kind::Listed(model) => small::session(engine, model, options).map_err(|e| e.to_string().into()),
        Kind::Large => {
            let model = DLinear::new(DLinearConfig { context: 2048, horizon: 1024, kernel: 25, outputs: 1 })?;
            let series = synthetic::demo(6000, 1, 1)?;
            let data = Dataset::forecast(series, Split::ratio(0.6, 0.2, 0.2)?, 2048, 1024)?.0;
            Ok(Session::new(engine, Box::new(model), &data, 2048, 1024, options)?)
        }
        Kind::Mixture(shared) => {
            let mut p = Parameters::new();
            let config = MoeConfig {
                experts: 4,
                chosen: 2,
                features: 24,
                hidden: 32,
                capacity: None,
                align: 16,
                balance: 0.01,
            };
            let layer = MoeFeedForward::new(&mut p, "moe", config);
            let layer = match shared {
                true => Experts::Shared(layer.across(engine.world())?),
                false => Experts::Replicated(layer),
            };
            let last = Linear::new(&mut p, "last", 24, 6);
            let series = synthetic::demo(400, 3, 1)?;
            let data = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 24, 6)?.0;
            Ok(Session::new(engine, Box::new(Mixture(p, layer, last)), &data, 24, 6, options)?)
        }
    }
}

/// What training left behind: every entry of the state that it updates, and what its steps reported.
#[derive(Debug, Clone, PartialEq)]
struct Trained {
    entries: Vec<(String, Vec<f64>)>,
    /// Loss, norm and rate of each step.
    records: Vec<[f64; 3]>,
    /// Error on the test windows.
    error: f64,
}

impl Trained {
    fn of(session: &mut Session) -> Result<Self, Failed> {
        (0..STEPS).try_for_each(|_| session.step())?;
        let records = session.records(1, STEPS)?.iter().map(|r| [r.loss, r.grad_norm, r.lr]).collect();
        let slabs = session.state.spec().slabs().iter().filter(|s| !s.constant && s.name != "cursors");
        let names: Vec<String> = slabs.flat_map(|s| &s.entries).map(|e| e.name.clone()).collect();
        // Means over micro-batches are a rank's own.
        let entries = names
            .into_iter()
            .filter(|name| !name.starts_with("mean."))
            .map(|name| Ok((name.clone(), session.state.read_host(&name)?.data)))
            .collect::<Result<_, Error>>()?;
        let error = session.evaluate(Segment::Test)?.errors().0;
        Ok(Self { entries, records, error })
    }

    /// The largest difference of an element to another's, relative to the largest element of its entry.
    fn differs(&self, other: &Self) -> f64 {
        let entries = self.entries.iter().zip(&other.entries).map(|((name, a), (of, b))| {
            assert_eq!(name, of);
            let largest = b.iter().fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
            a.iter().zip(b).fold(0.0f64, |m, (x, y)| m.max((x - y).abs())) / largest
        });
        let records = self.records.iter().flatten().zip(other.records.iter().flatten());
        entries.chain(records.map(|(a, b)| (a - b).abs() / b.abs())).fold(0.0, f64::max)
    }
}

/// What each of `ranks` threads trained.
fn trained(kind: &Kind, ranks: usize, options: &TrainingOptions) -> Vec<Result<Trained, Failed>> {
    together(ranks, |engine| Trained::of(&mut session(engine, kind, options.clone())?))
}

fn models() -> Vec<Kind> {
    vec![
        Kind::Listed(patchtst(NormKind::Batch, 0.2).expect("a PatchTST")),
        Kind::Listed(patchtst(NormKind::Layer, 0.0).expect("a PatchTST")),
        Kind::Listed(cross_asset(0.2)),
        Kind::Mixture(false),
    ]
}

/// A rank's part of a batch is a micro-batch of the whole: windows, dropout and means are those of one rank that cuts its batch
/// into as many, to the last bit.
#[test]
fn ranks_have_the_bytes_of_as_many_micro_batches() {
    for kind in models() {
        for ranks in [2, 3, 8] {
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                if dtype != DType::F32 && ranks != 2 {
                    continue;
                }
                let one = TrainingOptions { accumulate: ranks, dtype, ..TrainingOptions::default() };
                let engine = Engine::cpu_with_threads(1).expect("an engine");
                let mut alone = session(&engine, &kind, one).expect("a session");
                let expected = Trained::of(&mut alone).expect("steps");
                assert!(expected.records.iter().flatten().all(|x| x.is_finite() && *x > 0.0));
                let options = TrainingOptions { dtype, ..TrainingOptions::default() };
                for (rank, got) in trained(&kind, ranks, &options).into_iter().enumerate() {
                    let got = got.expect("every rank trains");
                    assert_eq!(got.differs(&expected), 0.0, "{kind:?} in {dtype}, rank {rank} of {ranks}");
                    assert_eq!(got.error, expected.error);
                }
            }
        }
    }
}

/// In the order of the ranks the sums are those of micro-batches on any transport: no collective adds, with and without shards of
/// the optimizer's state. On CPUs, whose collectives have that order too, nothing changes.
#[test]
fn sums_in_the_order_of_the_ranks() {
    let of = |ranks: usize, shard_optimizer: bool, accumulate: usize| TrainingOptions {
        rank_order: true,
        shard_optimizer,
        accumulate,
        clip: Some(0.1),
        dtype: if ranks == 2 { DType::BF16 } else { DType::F32 },
        ..TrainingOptions::default()
    };
    for kind in models().into_iter().chain([Kind::Large]) {
        for (ranks, shards, accumulate) in
            [(2, false, 1), (3, false, 1), (3, true, 1), (8, false, 1), (3, true, 2)]
        {
            if matches!(kind, Kind::Large) && ranks == 8 {
                continue;
            }
            let ordered = of(ranks, shards, accumulate);
            let free = TrainingOptions { rank_order: false, ..ordered.clone() };
            for (got, expected) in
                trained(&kind, ranks, &ordered).into_iter().zip(trained(&kind, ranks, &free))
            {
                let (got, expected) = (got.expect("every rank trains"), expected.expect("every rank trains"));
                assert!(
                    got == expected,
                    "{kind:?}, {ranks} ranks, shards: {shards}: {}",
                    got.differs(&expected)
                );
            }
            let null = Engine::null();
            null.join(World::threads(ranks, Duration::from_secs(60)).swap_remove(0)).expect("a world");
            let planned = session(&null, &kind, ordered).expect("a session");
            let count =
                |name| planned.programs().iter().flat_map(|p| p.ops()).filter(|op| *op == name).count();
            assert_eq!([count("all_reduce"), count("reduce_scatter")], [0, 0]);
            assert!(count("all_to_all") > 0 && count("all_gather") > 0);
        }
    }
}

/// With micro-batches on each rank the order of the sums differs, and nothing else.
#[test]
fn ranks_with_micro_batches_agree_within_rounding() {
    for kind in models() {
        let options = |accumulate| TrainingOptions { accumulate, ..TrainingOptions::default() };
        let engine = Engine::cpu_with_threads(1).expect("an engine");
        let mut alone = session(&engine, &kind, options(6)).expect("a session");
        let expected = Trained::of(&mut alone).expect("steps");
        let all: Vec<Trained> =
            trained(&kind, 3, &options(2)).into_iter().map(|got| got.expect("every rank trains")).collect();
        for got in &all {
            let differs = got.differs(&expected);
            assert!(differs < 1e-3, "{kind:?}: {differs}");
            assert_eq!(got, &all[0], "ranks differ from one another");
        }
    }
}

/// Experts that are shared out train as those that every rank has.
#[test]
fn shared_experts_agree_with_those_of_one_rank() {
    for ranks in [2, 4] {
        let engine = Engine::cpu_with_threads(1).expect("an engine");
        let options = TrainingOptions { accumulate: ranks, ..TrainingOptions::default() };
        let mut alone = session(&engine, &Kind::Mixture(false), options).expect("a session");
        let expected = Trained::of(&mut alone).expect("steps");
        for got in trained(&Kind::Mixture(true), ranks, &TrainingOptions::default()) {
            let differs = got.expect("every rank trains").differs(&expected);
            assert!(differs < 1e-3, "{ranks} ranks: {differs}");
        }
    }
    for got in trained(&Kind::Mixture(true), 3, &TrainingOptions::default()) {
        let error = got.expect_err("4 experts on 3 ranks").to_string();
        assert!(error.contains("ranks is 3; it must be a divisor of the experts"), "{error}");
    }
}

/// Without dropout and statistics of a batch, ranks make the update of the batch that is not cut.
#[test]
fn ranks_agree_with_the_whole_batch_within_rounding() {
    let kind = Kind::Listed(patchtst(NormKind::Layer, 0.0).expect("a PatchTST"));
    let engine = Engine::cpu_with_threads(1).expect("an engine");
    let mut alone = session(&engine, &kind, TrainingOptions::default()).expect("a session");
    let expected = Trained::of(&mut alone).expect("steps");
    for ranks in [2, 3, 8] {
        for got in trained(&kind, ranks, &TrainingOptions::default()) {
            let differs = got.expect("every rank trains").differs(&expected);
            assert!(differs > 0.0 && differs < 1e-3, "{ranks} ranks: {differs}");
        }
    }
}

#[test]
fn a_batch_that_the_ranks_do_not_divide_is_refused() {
    for got in trained(&models()[1], 5, &TrainingOptions::default()) {
        let error = got.expect_err("48 windows on 5 ranks").to_string();
        assert!(error.contains("accumulate · ranks is 5; it must be a divisor of the batch"), "{error}");
    }
}

/// Gradients of more than a bucket are combined in several collectives, and have the bytes of one.
#[test]
fn gradients_of_several_buckets() {
    let engine = Engine::cpu_with_threads(1).expect("an engine");
    let options = TrainingOptions { accumulate: 2, ..TrainingOptions::default() };
    let expected =
        Trained::of(&mut session(&engine, &Kind::Large, options).expect("a session")).expect("steps");
    for got in trained(&Kind::Large, 2, &TrainingOptions::default()) {
        assert_eq!(got.expect("every rank trains").differs(&expected), 0.0);
    }
    let null = Engine::null();
    null.join(World::threads(2, Duration::from_secs(60)).swap_remove(0)).expect("a world");
    let planned = session(&null, &Kind::Large, TrainingOptions::default()).expect("a session");
    let collectives = planned.programs()[0].ops().filter(|op| *op == "all_reduce").count();
    // One for the first map and the biases, which wait for the same part of the backward pass, one for the second map, and one for
    // what the step reports.
    assert_eq!(collectives, 3);
    // What the step reports is combined before the gradients are made: each collective is issued as soon as it can be.
    let ops: Vec<&str> = planned.programs()[0].ops().collect();
    let at = |name: &str| {
        ops.iter().enumerate().filter(|(_, op)| **op == name).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let (sums, products) = (at("all_reduce"), at("matmul"));
    assert!(sums[0] < products[2], "all_reduce at {sums:?}, matmul at {products:?}");
}
