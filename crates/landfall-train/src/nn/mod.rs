//! Layers: parameters by name, and the graph that a forward pass adds.

mod context;
mod layers;
pub mod loss;
mod moe;
mod parameter;

pub use context::{Context, Mode, RunningStatistic};
pub use layers::{Dropout, Linear, Norm, NormKind, gelu};
pub use moe::{MoeConfig, MoeFeedForward, MoeOutput};
pub use parameter::{Buffer, Group, Init, Parameter, ParameterId, Parameters};
