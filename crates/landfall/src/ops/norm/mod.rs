//! Normalisations, and their running statistics.

pub(crate) mod batch_norm;
pub(crate) mod l2_norm;
pub(crate) mod layer_norm;
pub(crate) mod running_update;

pub use batch_norm::{BatchNorm, BatchNormGrad};
pub use l2_norm::{L2Norm, L2NormGrad};
pub use layer_norm::{LayerNorm, LayerNormGrad};
pub use running_update::RunningUpdate;
