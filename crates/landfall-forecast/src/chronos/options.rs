//! How a Chronos-2 is trained further.

use super::error::ChronosError;
use crate::models::chronos::Chronos2Config;
use crate::nn::LowRank;
use crate::precision::{Precision, products_on};
use crate::train::{OptimizerKind, TrainingOptions};
use landfall::ops::Precision as Products;
use landfall::{DType, DeviceKind};
use serde::{Deserialize, Serialize};

/// Layers that get an adapter if no others are named: those of the authors.
const ADAPTED: [&str; 5] = [
    "self_attention.q",
    "self_attention.k",
    "self_attention.v",
    "self_attention.o",
    "output_patch_embedding.output_layer",
];

/// How a Chronos-2 is trained further: AdamW with a learning rate that falls to 0 along a line, on windows drawn from the groups. What is
/// not given is as in the authors' `fit`.
///
/// ```
/// use landfall_forecast::chronos::FineTuningOptions;
/// let all = FineTuningOptions::new(24); // all weights
/// let adapter = FineTuningOptions { adapter: Some(FineTuningOptions::low_rank()), steps: 500, ..all.clone() };
/// assert_eq!((all.rate(0), adapter.rate(250)), (1e-6, 5e-6));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FineTuningOptions {
    /// Rows that are forecast of each window: at most those of a pass.
    pub horizon: usize,
    /// Rows of context that are read at most; those of the model if left out.
    pub context: Option<usize>,
    /// Rows of context that a window has at least; the horizon if left out.
    pub shortest: Option<usize>,
    /// Steps.
    pub steps: usize,
    /// Series of a batch, covariates too; as many whole groups as have them.
    pub batch: usize,
    /// First learning rate; 1e-6 for all weights and 1e-5 for an adapter if left out.
    pub lr: Option<f64>,
    /// Weight decay of matrices.
    pub weight_decay: f64,
    /// Largest gradient norm, if gradients are clipped.
    pub clip: Option<f64>,
    /// Steps between two validations, and between two checkpoints.
    pub every: usize,
    /// Of arithmetic; not f64. Weights are f32.
    pub dtype: Precision,
    /// Seed of the windows, and of the adapter's initial values.
    pub seed: u64,
    /// The adapter that is trained; all weights if left out.
    pub adapter: Option<LowRank>,
}

impl FineTuningOptions {
    /// All weights for 1,000 steps in f32.
    #[must_use]
    pub fn new(horizon: usize) -> Self {
        Self {
            horizon,
            context: None,
            shortest: None,
            steps: 1000,
            batch: 256,
            lr: None,
            weight_decay: 0.0,
            clip: Some(1.0),
            every: 100,
            dtype: Precision::F32,
            seed: 2021,
            adapter: None,
        }
    }

    /// The authors' adapter: rank 8, alpha 16, of the attentions' products and the last one.
    #[must_use]
    pub fn low_rank() -> LowRank {
        LowRank { rank: 8, alpha: 16.0, targets: ADAPTED.map(str::to_owned).into() }
    }

    /// The learning rate of a step, counted from 0.
    #[must_use]
    pub fn rate(&self, step: usize) -> f64 {
        let first = self.lr.unwrap_or(if self.adapter.is_some() { 1e-5 } else { 1e-6 });
        first * (1.0 - step as f64 / self.steps.max(1) as f64)
    }

    /// Rows of context that a window of training has at least.
    pub(super) fn shortest(&self) -> usize {
        self.shortest.unwrap_or(self.horizon).max(1)
    }

    /// Refuses what does not fit each other, the model or the device.
    pub(super) fn check(&self, model: &Chronos2Config, device: DeviceKind) -> Result<(), ChronosError> {
        let most = model.pass();
        if self.horizon == 0 || self.horizon > most {
            return Err(ChronosError::Horizon { horizon: self.horizon, most });
        }
        let unfit = |what: String| Err(ChronosError::Options(what));
        for (name, value) in [("steps", self.steps), ("batch", self.batch), ("every", self.every)] {
            if value == 0 {
                return unfit(format!("{name} is 0; it must be at least 1"));
            }
        }
        if let Some(context) = self.context.filter(|rows| *rows == 0 || *rows > model.context) {
            return unfit(format!(
                "the context is {context} rows; it must be 1 to {}, which the model reads",
                model.context
            ));
        }
        if self.dtype.parts().0 == DType::F64 {
            return unfit("the dtype is f64; it must be f32, tf32, bf16 or f16".to_owned());
        }
        self.products(device).map(drop)
    }

    /// How f32 products multiply on a device.
    fn products(&self, device: DeviceKind) -> Result<Products, ChronosError> {
        products_on(device, self.dtype.parts().1).ok_or_else(|| {
            ChronosError::Options(
                "the dtype is tf32, which is for products on CUDA devices; on the CPU compute in 32-bit floats".to_owned(),
            )
        })
    }

    /// What the trainer is made with on a device, of so many groups a batch.
    pub(super) fn training(
        &self,
        device: DeviceKind,
        groups: usize,
    ) -> Result<TrainingOptions, ChronosError> {
        let (dtype, products) = (self.dtype.parts().0, self.products(device)?);
        Ok(TrainingOptions {
            batch: groups,
            max_steps: Some(self.steps),
            lr: self.rate(0),
            optimizer: OptimizerKind::AdamW,
            weight_decay: self.weight_decay,
            clip: self.clip,
            dtype,
            products,
            seed: self.seed,
            order: crate::train::Order::Sequential,
            ..TrainingOptions::default()
        })
    }
}
