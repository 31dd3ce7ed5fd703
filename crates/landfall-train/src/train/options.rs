//! Options of a training run.

use super::optimizer_kind::{Betas, OptimizerKind};
use super::ranks::Ranks;
use super::{Draws, Loss, Schedule};
use landfall::ops::Precision;
use landfall::{DType, Rule};
use serde::{Deserialize, Serialize};

/// In which order the windows of an epoch are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By a permutation of each epoch's own; [`Draws`] says how it is drawn.
    Shuffle,
    /// As they come.
    Sequential,
}

/// Everything that decides what a step does, besides model and data.
///
/// ```
/// use landfall::DType;
/// use landfall_train::train::{OptimizerKind, Schedule, TrainingOptions};
/// let options = TrainingOptions {
///     batch: 64,
///     accumulate: 4, // four micro-batches of 16
///     lr: 3e-4,
///     schedule: Schedule::Cosine,
///     optimizer: OptimizerKind::AdamW,
///     weight_decay: 0.01,
///     clip: Some(1.0),
///     dtype: DType::BF16,
///     ..TrainingOptions::default()
/// };
/// assert_eq!((options.epochs, options.seed), (10, 2021));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingOptions {
    /// Windows, or samples of a [`Trainer`](super::Trainer), of a batch; of data with fewer all of them.
    pub batch: usize,
    /// Micro-batches that a batch is cut into, which run one after another; the gradients' mean makes one update. Must
    /// divide the batch.
    #[serde(default = "one")]
    pub accumulate: usize,
    /// Passes over the training windows.
    pub epochs: usize,
    /// Updates in all, at least 1, if the run ends before its last epoch.
    pub max_steps: Option<usize>,
    /// Learning rate, at least 0.
    pub lr: f64,
    /// How it changes.
    pub schedule: Schedule,
    /// Which optimizer.
    pub optimizer: OptimizerKind,
    /// Decay rates of its moments.
    pub betas: Betas,
    /// Weight decay of matrices; vectors decay where a [group](crate::nn::Group) says so.
    pub weight_decay: f64,
    /// Whether the ranks that train together share out the optimizer's moments, each updating its part of the parameters (ZeRO,
    /// stage 1): less memory on each, and the same results. One rank keeps them all, as without it.
    ///
    /// Gradients are reduce-scattered instead of all-reduced, and the new weights are all-gathered. The optimizer must be
    /// [elementwise](super::Optimizer::elementwise). The average of the weights is not shared out: predictions read all of it.
    #[serde(default, skip_serializing_if = "is_off")]
    pub shard_optimizer: bool,
    /// Whether a batch norm takes mean and variance over the batch of all ranks that train together, instead of each rank's part:
    /// then N ranks make the step of one rank on the same batch, within rounding. Without it each rank's part is a batch of its
    /// own to a batch norm, as a micro-batch is; one rank, and a model without batch norm, train the same with and without.
    /// Not with micro-batches, which run one after another.
    #[serde(default, skip_serializing_if = "is_off")]
    pub sync_batch_norm: bool,
    /// Whether what the ranks that train together add is added in their order, on a GPU too, where NCCL has an order of its own: then
    /// N ranks have the bytes of one rank with N times the micro-batches. Not with synchronised batch norm. On CPUs it changes no
    /// byte: there the order is always that of the ranks.
    ///
    /// A bucket is cut into one block for each rank. An all-to-all brings a rank its block of every rank's bucket, the rank adds these
    /// in order, and an all-gather gives all ranks the sums. As many bytes travel as in an all-reduce, in two collectives.
    #[serde(default, skip_serializing_if = "is_off")]
    pub rank_order: bool,
    /// Decay rate, in [0, 1), of an exponential moving average of the weights, if one is kept beside them. It begins as the weights
    /// do, and again where the host writes some: initial values, or those of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<f64>,
    /// Largest global gradient norm, above 0, if gradients are clipped.
    pub clip: Option<f64>,
    /// Dtype of arithmetic: f32, f64, bf16 or f16. With the last two, products and the pointwise ops between them run in
    /// it and all else in f32 ([`landfall::mixed_precision`]); parameters, moments and statistics are f32; with f16 the
    /// loss is scaled ([`landfall::ops::LossScale`]).
    #[serde(with = "dtype_name")]
    pub dtype: DType,
    /// How f32 products multiply.
    #[serde(default)]
    pub products: Precision,
    /// Seed of initial values, order and dropout.
    pub seed: u64,
    /// Order of the windows.
    pub order: Order,
    /// Where initial values and orders are drawn from.
    #[serde(default)]
    pub draws: Draws,
    /// What is minimised. A [`Trainer`](super::Trainer) is given its loss as a function and ignores this.
    pub loss: Loss,
}

impl TrainingOptions {
    /// Refuses numbers outside of their range, and choices that exclude each other.
    pub(super) fn check(&self) -> Result<(), Rule> {
        let epochs = if self.max_steps.is_none() { self.epochs } else { 1 };
        for (name, count) in [("epochs", epochs), ("max_steps", self.max_steps.unwrap_or(1))] {
            if count == 0 {
                return Err(Rule::Attribute { name, value: 0.0, expected: "at least 1" });
            }
        }
        all_good(&[
            ("lr", Some(self.lr), AT_LEAST_0, &at_least_0),
            ("betas.first", Some(self.betas.first), "in [0, 1)", &decays),
            ("betas.second", Some(self.betas.second), "in [0, 1)", &decays),
        ])?;
        check_update(self.weight_decay, self.average, self.clip)?;
        if !self.dtype.is_float() {
            let (value, takes) = (self.dtype.to_string(), "f32, f64, bf16 or f16");
            return Err(Rule::AttributeValue { name: "dtype", value, takes, choices: &[] });
        }
        self.loss.check()?;
        if self.sync_batch_norm && self.accumulate > 1 {
            let expected =
                "off with accumulate above 1: no micro-batch knows the rows of those that run after it";
            return Err(Rule::Attribute { name: "sync_batch_norm", value: 1.0, expected });
        }
        if self.sync_batch_norm && self.rank_order {
            let expected = "off with sync_batch_norm, whose sums over ranks have the order of the transport";
            return Err(Rule::Attribute { name: "rank_order", value: 1.0, expected });
        }
        Ok(())
    }

    /// The ranks of these whose rows are one batch to a batch norm.
    pub(super) fn statistics(&self, ranks: Ranks) -> usize {
        if self.sync_batch_norm { ranks.size } else { 1 }
    }
}

impl Default for TrainingOptions {
    /// Adam at 1e-3 for 10 epochs of shuffled batches of 32, mean squared error, f32, seed 2021.
    fn default() -> Self {
        Self {
            batch: 32,
            accumulate: 1,
            epochs: 10,
            max_steps: None,
            lr: 1e-3,
            schedule: Schedule::Constant,
            optimizer: OptimizerKind::Adam,
            betas: Betas { first: 0.9, second: 0.999 },
            weight_decay: 0.0,
            shard_optimizer: false,
            sync_batch_norm: false,
            rank_order: false,
            average: None,
            clip: None,
            dtype: DType::F32,
            products: Precision::Strict,
            seed: 2021,
            order: Order::Shuffle,
            draws: Draws::Philox,
            loss: Loss::Mse,
        }
    }
}

/// A number that may be there, by name, and what it must be.
type Number<'a> = (&'static str, Option<f64>, &'static str, &'a dyn Fn(f64) -> bool);

/// Refuses the first number that is not what it must be.
fn all_good(numbers: &[Number<'_>]) -> Result<(), Rule> {
    for &(name, value, expected, good) in numbers {
        if let Some(value) = value.filter(|&value| !good(value)) {
            return Err(Rule::Attribute { name, value, expected });
        }
    }
    Ok(())
}

/// Refuses what an update takes, outside of its range.
pub(super) fn check_update(weight_decay: f64, average: Option<f64>, clip: Option<f64>) -> Result<(), Rule> {
    all_good(&[
        ("weight_decay", Some(weight_decay), AT_LEAST_0, &at_least_0),
        ("average", average, "in [0, 1)", &decays),
        ("clip", clip, "finite and above 0; leave it out to clip nothing", &|x| x > 0.0 && x.is_finite()),
    ])
}

/// Whether a number is a decay rate.
fn decays(x: f64) -> bool {
    (0.0..1.0).contains(&x)
}

/// What a rate must be.
pub(crate) const AT_LEAST_0: &str = "finite and at least 0";

/// Whether a number is that.
pub(crate) fn at_least_0(x: f64) -> bool {
    x >= 0.0 && x.is_finite()
}

fn one() -> usize {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_off(choice: &bool) -> bool {
    !choice
}

mod dtype_name {
    use landfall::DType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(dtype: &DType, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(dtype.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<DType, D::Error> {
        let name = String::deserialize(d)?;
        DType::parse(&name).ok_or_else(|| D::Error::custom(format!("unknown dtype {name}")))
    }
}
