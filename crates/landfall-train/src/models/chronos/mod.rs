//! Chronos-2 (Ansari et al. 2025, [arXiv 2510.15821](https://arxiv.org/abs/2510.15821)) and Chronos-Bolt (Ansari et al. 2024): pretrained
//! forecasters of others, with the names and shapes of their authors' checkpoints.

mod activation;
mod bolt;
mod chronos2;
mod network;
mod parts;
mod scale;
mod sizes;

pub use activation::Activation;
pub use bolt::ChronosBolt;
pub use chronos2::{Ahead, Chronos2, Seen};
pub use network::Network;
pub use scale::{Scale, quantile_loss, scale};
pub use sizes::{Chronos2Config, ChronosBoltConfig};
