//! The row `experts` of ranks: a mixture-of-experts layer forward and backward, its experts shared out among the ranks, beside the
//! layer of which every rank computes all experts for its own tokens.

use crate::error::BenchError;
use landfall::rng::Rng;
use landfall::{DType, Engine, Error, Graph, Program, State, StateSpec, Value, World, grad, mixed_precision};
use landfall_forecast::run::Precision;
use landfall_train::nn::{Context, Mode, MoeConfig, MoeFeedForward, Parameters};
use std::sync::Arc;
use std::time::Instant;

/// The row's name.
pub(crate) const NAME: &str = "experts";
/// Tokens of each rank.
pub(crate) const TOKENS: usize = 8192;
/// Buffers hold half as many pairs again as there are: with tokens that choose at random none is dropped.
const CONFIG: MoeConfig = MoeConfig {
    experts: 16,
    chosen: 2,
    features: 2048,
    hidden: 4096,
    capacity: Some(3 * TOKENS),
    align: 128,
    balance: 0.0,
};

/// The layer as a program of one rank, forward and backward.
pub(crate) struct Experts {
    engine: Engine,
    program: Program,
    state: State,
    steps: usize,
}

/// The largest differences of two layers, relative to the largest element of the second.
pub(crate) struct Differences {
    pub(crate) result: f64,
    /// Of the gradient by the tokens.
    pub(crate) gradient: f64,
}

impl Experts {
    /// The layer of this rank's tokens; with a world its experts are shared out among those ranks.
    pub(crate) fn new(
        engine: &Engine,
        rank: usize,
        world: Option<&World>,
        dtype: Precision,
    ) -> Result<Self, BenchError> {
        let mut p = Parameters::new();
        // A layer of all experts drops nothing either, so that both compute the same.
        let config = MoeConfig { capacity: world.and(CONFIG.capacity), ..CONFIG };
        let layer = MoeFeedForward::new(&mut p, "moe", config);
        let mut spec = StateSpec::new();
        let entries: Vec<_> = p.list().iter().map(|p| (p.name.clone(), p.shape)).collect();
        spec.add("parameters", DType::F32, &entries)?;
        let spec = Arc::new(spec);
        let mut state = State::new(engine, &spec)?;
        p.initialise(&mut state, 2021)?;
        let forward = Graph::new(&spec);
        let shape = [TOKENS, config.features];
        let (x, weights) =
            (forward.input("x", DType::F32, shape), forward.input("weights", DType::F32, shape));
        let cx = Context::new(&forward, &p, Mode::Evaluate);
        let out = match world {
            Some(world) => layer.across(world)?.forward(&cx, x)?,
            None => layer.forward(&cx, x)?,
        };
        let loss = forward.sum(forward.mul(out.y, weights)?, [0, 1])?;
        let (dtype, products) = dtype.parts();
        let mixed = mixed_precision(&forward, dtype, products)?;
        let g = mixed.graph();
        let mut wrt: Vec<(String, Value)> = entries
            .iter()
            .map(|(name, _)| Ok((name.clone(), g.entry(name)?)))
            .collect::<Result<_, Error>>()?;
        wrt.push(("x".to_owned(), mixed.value(x)?));
        for (gradient, (name, _)) in grad(g, mixed.value(loss)?, &wrt)?.iter().zip(&wrt) {
            g.output(&format!("gradient of {name}"), *gradient);
        }
        g.output("y", mixed.value(out.y)?);
        g.output("dropped", mixed.value(out.dropped)?);
        let mut program = Program::compile(engine, &state, NAME, g)?;
        let mut rng = Rng::new(7 + rank as u64, 1);
        for name in ["x", "weights"] {
            let values: Vec<f32> = (0..TOKENS * config.features).map(|_| rng.normal() as f32).collect();
            program.write(name, &values)?;
        }
        let mut made = Self { engine: engine.clone(), program, state, steps: 1 };
        made.sample()?;
        Ok(made)
    }

    /// Sets how many times a sample runs the layer; all ranks must take the same.
    pub(crate) fn repeat(&mut self, steps: usize) {
        self.steps = steps;
    }

    /// Microseconds of one pass forward and backward.
    pub(crate) fn sample(&mut self) -> Result<f64, BenchError> {
        self.engine.synchronize()?;
        let start = Instant::now();
        for _ in 0..self.steps {
            self.program.run(&mut self.state)?;
        }
        self.engine.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / self.steps as f64)
    }

    /// Pairs of token and expert that found no room.
    pub(crate) fn dropped(&self) -> Result<i32, BenchError> {
        Ok(self.program.read::<i32>("dropped")?.iter().sum())
    }

    /// How the results differ from those of another.
    pub(crate) fn differs(&self, other: &Self) -> Result<Differences, BenchError> {
        let of = |name: &str| -> Result<f64, Error> {
            let (a, b) = (self.program.read::<f32>(name)?, other.program.read::<f32>(name)?);
            let largest = b.iter().fold(f32::MIN_POSITIVE, |m, x| m.max(x.abs()));
            let worst = a.iter().zip(&b).fold(0.0f32, |m, (x, y)| m.max((x - y).abs()));
            Ok(f64::from(worst) / f64::from(largest))
        };
        Ok(Differences { result: of("y")?, gradient: of("gradient of x")? })
    }
}
