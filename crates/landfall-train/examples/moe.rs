//! A mixture of experts that learns to classify: `cargo run --release -p landfall-train --example moe`.
//!
//! Each token goes to 2 of 8 experts; a training step, router and all, is one captured program.
use landfall::{DType, Engine, Error, Graph, Program, Value};
use landfall_train::data::{Segment, Split, TokenData, TokenSegments, synthetic};
use landfall_train::models::Model;
use landfall_train::nn::{Context, Linear, Mode, MoeConfig, MoeFeedForward, MoeOutput, Parameters};
use landfall_train::train::{Dataset, Loss, Session, TrainingOptions};

pub(crate) const TOKENS: usize = 6;
pub(crate) const BATCH: usize = 64;
const FEATURES: usize = 8;
const CLASSES: usize = 3;
pub(crate) const PAIRS: usize = BATCH * TOKENS * 2;

pub(crate) struct Classifier {
    parameters: Parameters,
    embed: Linear,
    experts: MoeFeedForward,
    head: Linear,
}

impl Classifier {
    pub(crate) fn new(capacity: Option<usize>) -> Self {
        let mut p = Parameters::new();
        let config =
            MoeConfig { experts: 8, chosen: 2, features: 32, hidden: 64, capacity, align: 16, balance: 0.01 };
        let embed = Linear::new(&mut p, "embed", 2 * FEATURES, 32);
        let experts = MoeFeedForward::new(&mut p, "moe", config);
        let head = Linear::new(&mut p, "head", 32, CLASSES);
        Self { parameters: p, embed, experts, head }
    }

    /// A token's class shows in its own features and in the next token's.
    fn classify(&self, cx: &Context<'_>, x: Value) -> Result<(Value, MoeOutput), Error> {
        let g = cx.graph;
        let next = g.concat(&[g.slice(x, 1, 1, TOKENS - 1)?, g.slice(x, 1, 0, 1)?], 1)?;
        let hidden = self.embed.forward(cx, g.concat(&[x, next], 2)?)?;
        let experts = self.experts.forward(cx, hidden)?;
        Ok((self.head.forward(cx, g.add(hidden, experts.y)?)?, experts))
    }

    /// How many tokens each expert takes of a batch of samples.
    pub(crate) fn load(&self, session: &mut Session, samples: &[f32]) -> Result<Vec<i32>, Error> {
        let g = Graph::new(session.state.spec());
        let x = g.input("x", DType::F32, [BATCH, TOKENS, FEATURES]);
        let cx = Context::new(&g, &self.parameters, Mode::Evaluate);
        g.output("load", self.classify(&cx, x)?.1.load);
        let mut program = Program::compile(&session.engine, &session.state, "load", &g)?;
        program.write("x", samples)?;
        program.run(&mut session.state)?;
        program.read("load")
    }
}

impl Model for Classifier {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }
    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }
    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        Ok(self.classify(cx, x)?.0)
    }
}

type Failure = Box<dyn std::error::Error>;

pub(crate) fn session(capacity: Option<usize>, data: &TokenData) -> Result<Session, Failure> {
    let dataset = Dataset::classification(data, TokenSegments::new(data, Split::ratio(0.7, 0.1, 0.2)?)?);
    let options =
        TrainingOptions { batch: BATCH, loss: Loss::CrossEntropy, lr: 3e-3, ..TrainingOptions::default() };
    let model = Box::new(Classifier::new(capacity));
    Ok(Session::new(&Engine::cpu()?, model, &dataset, FEATURES, CLASSES, options)?)
}

fn main() -> Result<(), Failure> {
    let data = synthetic::assets(8000, TOKENS, FEATURES, 1)?;
    for capacity in [None, Some(PAIRS)] {
        let mut session = session(capacity, &data)?;
        (0..600).try_for_each(|_| session.step())?;
        let accuracy = session.evaluate(Segment::Test)?.classes.map(|c| c.accuracy);
        println!("capacity {capacity:?}: test accuracy {accuracy:.3?}, at best {:.3?}", data.bayes);
        let load = Classifier::new(capacity).load(&mut session, &data.inputs[..BATCH * TOKENS * FEATURES])?;
        let dropped = PAIRS - load.iter().sum::<i32>() as usize;
        println!("{dropped} of {PAIRS} pairs of token and expert dropped; load of each expert: {load:?}");
    }
    Ok(())
}
