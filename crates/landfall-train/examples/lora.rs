//! LoRA (Hu et al. 2021): a network that reads handwritten digits is taught mirrored ones by factors of rank 4 beside its weights, which
//! stay as they are: `cargo run --release -p landfall-train --example lora`.
use landfall::{DType, Engine, Error, Value};
use landfall_train::nn::{Context, Linear, LowRank, Parameters, loss};
use landfall_train::train::{Arrays, Batch, OptimizerKind, Trainer, TrainingOptions, Weights};

const RANK: usize = 4;
const SIZES: [(usize, usize); 3] = [(64, 64), (64, 64), (64, 10)];

/// 8×8 pixels and a label each; the rows and columns of a mirrored picture are swapped.
fn digits(mirrored: bool) -> Result<Arrays, Error> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for line in include_str!("../../../examples/digits/digits.csv").lines() {
        let numbers: Vec<u8> = line.split(',').filter_map(|number| number.parse().ok()).collect();
        let at = |i: usize| if mirrored { i % 8 * 8 + i / 8 } else { i };
        pixels.extend((0..64).map(|i| f32::from(numbers[at(i)]) / 16.0));
        labels.push(i64::from(numbers[64]));
    }
    Arrays::new().with("pixels", [labels.len(), 64], pixels)?.with("label", [labels.len()], labels)
}

struct Network {
    parameters: Parameters,
    layers: Vec<Linear>,
}

impl Network {
    fn new() -> Self {
        let mut parameters = Parameters::new();
        let layer = |(number, &(from, to))| Linear::new(&mut parameters, &format!("{number}"), from, to);
        let layers = SIZES.iter().enumerate().map(layer).collect();
        Self { parameters, layers }
    }

    /// Freezes what there is and puts factors beside each layer. They begin with a product of zeros, so that the network gives what it gave.
    fn adapted(mut self) -> Result<Self, Error> {
        let targets = (0..SIZES.len()).map(|number| number.to_string()).collect();
        self.parameters.adapt(&LowRank { rank: RANK, alpha: RANK as f64, targets })?;
        Ok(self)
    }

    fn logits(&self, cx: &Context<'_>, batch: &Batch) -> Result<Value, Error> {
        let (first, rest) = self.layers.split_first().expect("three layers");
        let x = first.forward(cx, batch.get("pixels")?)?;
        rest.iter().try_fold(x, |x, layer| layer.forward(cx, cx.graph.relu(x)?))
    }

    fn trainer(&self, data: &Arrays) -> Result<Trainer, Error> {
        let adam = OptimizerKind::Adam;
        let options = TrainingOptions { epochs: 15, lr: 3e-3, optimizer: adam, ..TrainingOptions::default() };
        Trainer::new(&Engine::cpu()?, &self.parameters, data, options, |cx, batch| {
            loss::cross_entropy(cx.graph, self.logits(cx, batch)?, batch.get("label")?)
        })
    }

    /// The share of digits that are read correctly.
    fn accuracy(&self, trainer: &Trainer, data: &Arrays) -> Result<f64, Error> {
        let mut right = trainer.predictor(data, data.rows(), Weights::Last, |cx, batch| {
            let chosen = cx.graph.argmax(self.logits(cx, batch)?, -1)?;
            cx.graph.cast(cx.graph.equal(chosen, batch.get("label")?)?, DType::F32)
        })?;
        Ok(right.run(trainer, data)?.data.iter().sum::<f64>() / data.rows() as f64)
    }
}

/// Accuracies on held-out digits: of the base on its own and on mirrored ones, of the adapted network on mirrored ones before and after
/// training; and the base's numbers, and those trained after.
pub(crate) fn run() -> Result<([f64; 4], [usize; 2]), Error> {
    let ((test, training), (mirrored_test, mirrored)) = (digits(false)?.split(360), digits(true)?.split(360));
    let base = Network::new();
    let mut trainer = base.trainer(&training)?;
    trainer.fit()?;
    let known = [base.accuracy(&trainer, &test)?, base.accuracy(&trainer, &mirrored_test)?];

    let adapted = Network::new().adapted()?;
    let mut tuning = adapted.trainer(&mirrored)?;
    for parameter in base.parameters.list() {
        tuning.state.write_host(&parameter.name, &trainer.state.read_host(&parameter.name)?)?;
    }
    let before = adapted.accuracy(&tuning, &mirrored_test)?;
    tuning.fit()?;
    for parameter in base.parameters.list() {
        let bytes = |trainer: &Trainer| Ok::<_, Error>(trainer.state.read_host(&parameter.name)?.to_bytes());
        assert_eq!(bytes(&tuning)?, bytes(&trainer)?, "{} is frozen", parameter.name);
    }
    let after = adapted.accuracy(&tuning, &mirrored_test)?;
    Ok(([known[0], known[1], before, after], [base.parameters.count(), adapted.parameters.count()]))
}

fn main() -> Result<(), Error> {
    let ([own, mirrored, before, after], [all, trained]) = run()?;
    println!("the base reads {own:.3} of its digits and {mirrored:.3} of mirrored ones");
    println!(
        "with factors {before:.3}, trained {after:.3}: {trained} numbers beside the {all} of the base, which kept their bytes"
    );
    Ok(())
}
