//! A forecaster of series that it was not trained on: a transformer over patches of a scaled context, pretrained on simulated series.

mod crops;
mod forecaster;
mod network;
mod positions;
mod scaling;
mod sizes;

pub use crops::{Crops, Lengths};
pub use forecaster::{ZeroShotForecaster, ZeroShotForecasterConfig};
pub use network::ZeroShot;
pub use scaling::{RATIO, Scaled, in_logarithms, scaled};
pub(super) use scaling::{asinh, sinh};
pub use sizes::{LEVELS, Seen, ZeroShotConfig};

#[cfg(test)]
mod tests;
