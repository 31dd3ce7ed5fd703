//! The mixture of experts as a layer: its gradient, its training in a captured step, dropped tokens and loads.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::{on_each_device, own};
use landfall::rng::Rng;
use landfall::{DType, DeviceKind, Engine, Error, Graph, Program, State, StateSpec, Value, grad};
use landfall_train::data::{Segment, Split, synthetic};
use landfall_train::models::Model;
use landfall_train::nn::{Context, Linear, Mode, MoeConfig, MoeFeedForward, MoeOutput, Parameters};
use landfall_train::train::{Dataset, Session, TrainingOptions};
use std::sync::Arc;

type Check = Result<(), Box<dyn std::error::Error>>;

const SMALL: MoeConfig =
    MoeConfig { experts: 4, chosen: 2, features: 5, hidden: 6, capacity: None, align: 4, balance: 0.1 };

/// A layer alone, in f64, on 24 tokens, with the gradients of a weighted sum of its results and its balance.
struct Alone {
    names: Vec<String>,
    program: Program,
    state: State,
}

impl Alone {
    fn new(engine: &Engine, config: MoeConfig) -> Result<Self, Error> {
        let mut p = Parameters::new();
        let layer = MoeFeedForward::new(&mut p, "moe", config);
        let mut spec = StateSpec::new();
        let entries: Vec<_> = p.list().iter().map(|p| (p.name.clone(), p.shape)).collect();
        spec.add("parameters", DType::F64, &entries)?;
        let spec = Arc::new(spec);
        let mut state = State::new(engine, &spec)?;
        p.initialise(&mut state, 7)?;
        let g = Graph::new(&spec);
        let (x, weights) = (g.input("x", DType::F64, [2, 12, 5]), g.input("weights", DType::F64, [2, 12, 5]));
        let cx = Context::new(&g, &p, Mode::Evaluate);
        let MoeOutput { y, balance, load, .. } = layer.forward(&cx, x)?;
        let loss = cx.penalised(g.sum(g.mul(y, weights)?, [0, 1, 2])?)?;
        let mut wrt: Vec<(String, Value)> = entries
            .iter()
            .map(|(name, _)| Ok((name.clone(), g.entry(name)?)))
            .collect::<Result<_, Error>>()?;
        wrt.push(("x".to_owned(), x));
        for (gradient, (name, _)) in grad(&g, loss, &wrt)?.iter().zip(&wrt) {
            g.output(&format!("gradient of {name}"), *gradient);
        }
        g.output("loss", loss);
        g.output("y", y);
        g.output("balance", balance);
        g.output("load", load);
        let mut program = Program::compile(engine, &state, "moe", &g)?;
        let mut rng = Rng::new(3, 1);
        for name in ["x", "weights"] {
            program.write(name, &(0..120).map(|_| rng.normal()).collect::<Vec<f64>>())?;
        }
        Ok(Self { names: entries.into_iter().map(|e| e.0).collect(), program, state })
    }

    fn loss(&mut self) -> Result<f64, Error> {
        self.program.run(&mut self.state)?;
        Ok(self.program.read::<f64>("loss")?[0])
    }
}

/// Each parameter's gradient, at some of its elements, against differences of the loss.
fn gradients_are_differences(engine: &Engine) -> Check {
    const STEP: f64 = 1e-5;
    for config in
        [SMALL, MoeConfig { capacity: Some(40), ..SMALL }, MoeConfig { chosen: 1, align: 1, ..SMALL }]
    {
        let mut layer = Alone::new(engine, config)?;
        for name in layer.names.clone() {
            layer.loss()?;
            let gradient = layer.program.read::<f64>(&format!("gradient of {name}"))?;
            let values = layer.state.read::<f64>(&name)?;
            let largest = gradient.iter().fold(0.0f64, |m, g| m.max(g.abs()));
            assert!(largest > 0.0, "{config:?}: no gradient flows to {name}");
            for i in (0..values.len()).step_by(7) {
                let mut at = |step: f64| -> Result<f64, Error> {
                    let mut moved = values.clone();
                    moved[i] += step;
                    layer.state.write(&name, &moved)?;
                    layer.loss()
                };
                let difference = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
                layer.state.write(&name, &values)?;
                let off = (gradient[i] - difference).abs();
                // Measured: at most 1.2e-10, on gradients of about 1.
                assert!(off <= 1e-9, "{config:?} {name}[{i}]: {} and {difference}", gradient[i]);
            }
        }
    }
    Ok(())
}

/// Where there is room for every pair, none is dropped; a full layer drops what is behind its last row; equal loads have
/// the least balance.
fn loads_are_counted(engine: &Engine) -> Check {
    let loads = |capacity| -> Result<(i32, f64), Error> {
        let mut layer = Alone::new(engine, MoeConfig { capacity, align: 1, ..SMALL })?;
        layer.loss()?;
        Ok((layer.program.read::<i32>("load")?.iter().sum(), layer.program.read::<f64>("balance")?[0]))
    };
    let (all, balance) = loads(None)?;
    assert_eq!(all, 24 * 2);
    assert!((0.9..2.0).contains(&balance), "{balance}");
    assert_eq!(loads(Some(30))?.0, 30);
    assert_eq!(loads(Some(30))?.1, balance, "what is dropped was routed all the same");
    // Of one expert, the balance is 1 whatever the router says.
    let mut one = Alone::new(engine, MoeConfig { experts: 1, chosen: 1, ..SMALL })?;
    one.loss()?;
    assert!((one.program.read::<f64>("balance")?[0] - 1.0).abs() < 1e-12);
    Ok(())
}

/// Windows of 48 rows are the tokens; what the experts say of one is added to it before the last map.
struct Mixture(Parameters, MoeFeedForward, Linear);

impl Model for Mixture {
    fn parameters(&self) -> &Parameters {
        &self.0
    }
    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.0
    }
    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let mixed = self.1.forward(cx, x)?;
        self.2.forward(cx, cx.graph.add(x, mixed.y)?)
    }
}

fn session(engine: &Engine, dtype: DType) -> Result<Session, Box<dyn std::error::Error>> {
    let mut p = Parameters::new();
    let config = MoeConfig { experts: 4, features: 48, hidden: 64, align: 16, balance: 0.01, ..SMALL };
    let layer = MoeFeedForward::new(&mut p, "moe", config);
    let last = Linear::new(&mut p, "last", 48, 12);
    let data = Dataset::forecast(synthetic::demo(2000, 3, 1)?, Split::ratio(0.7, 0.1, 0.2)?, 48, 12)?.0;
    let options = TrainingOptions { dtype, ..TrainingOptions::default() };
    Ok(Session::new(engine, Box::new(Mixture(p, layer, last)), &data, 48, 12, options)?)
}

/// A captured step is one launch without a transfer, and makes the error smaller, in f32 and in bf16.
fn it_trains(shared: &Engine) -> Check {
    // Its counts are read.
    let engine = &own(shared)?;
    for dtype in [DType::F32, DType::BF16] {
        let mut session = session(engine, dtype)?;
        let before = session.evaluate(Segment::Test)?.errors().0;
        session.step()?;
        engine.synchronize()?;
        let start = engine.counters();
        (0..200).try_for_each(|_| session.step())?;
        engine.synchronize()?;
        let end = engine.counters();
        assert_eq!((end.replays - start.replays, end.host_transfers - start.host_transfers), (200, 0));
        if let DeviceKind::Cuda(_) = engine.device() {
            assert_eq!(end.launches - start.launches, 200, "one launch a step");
        }
        let after = session.evaluate(Segment::Test)?.errors().0;
        assert!(after < 0.7 * before, "{dtype}: {before}, then {after}");
    }
    Ok(())
}

on_each_device! {
    gradients_are_differences,
    loads_are_counted,
    it_trains,
}
