//! What a training step is made of beside its model: optimizer, gradient norms, loss scale, cursor, windows of the data.

pub(crate) mod accumulate;
pub(crate) mod adam;
pub(crate) mod clip;
pub mod cursor;
pub(crate) mod loss_scale;
pub(crate) mod micro_mean;
pub(crate) mod windows;

pub use accumulate::Accumulate;
pub use adam::Adam;
pub use clip::{AllFinite, ClipScale, GlobalNorm};
pub use cursor::{Advance, AdvanceMicro, Lookup, RingPush};
pub use loss_scale::LossScale;
pub use micro_mean::MicroMean;
pub use windows::{BatchWindows, Order, WindowGather};
