//! Layers: parameters by name, and the graph that a forward pass adds.

mod adapter;
mod attention;
mod batch_statistics;
mod context;
mod convolution;
mod distribution;
mod embedding;
mod expert_parallel;
mod layers;
pub mod loss;
pub mod metric;
mod moe;
mod norms;
mod parameter;
mod recurrent;

pub use adapter::LowRank;
pub use attention::{AttentionConfig, MultiHeadAttention};
pub(crate) use context::Asked;
pub use context::{Context, Mode, RunningStatistic};
pub use convolution::Conv1d;
pub use distribution::{Distribution, MOST_INVERSE_FREEDOM};
pub use distribution::{Family, Terms, ln_gamma};
pub use embedding::Embedding;
pub use expert_parallel::ExpertParallel;
pub use layers::{Dropout, Linear, Norm, NormKind, gelu};
pub use moe::{MoeConfig, MoeFeedForward, MoeOutput};
pub use norms::{GroupNorm, RmsNorm};
pub use parameter::{Buffer, Group, Init, Parameter, ParameterId, Parameters};
pub use recurrent::{Gru, Lstm};
