//! A forecaster of unknown series: its pretraining on simulated ones, its weights, and forecasts with them.

mod error;
mod forecaster;
mod pretraining;
mod quantile;
mod recipe;
mod weights;

pub use error::ZeroShotError;
pub(crate) use forecaster::POWER;
pub use forecaster::{Forecaster, MOST_ROWS, Quantiles};
pub use pretraining::{Point, Pretraining, Verdict};
pub use quantile::{normal, quantile};
pub use recipe::{Optimizer, Recipe, Simulation, Validation};
pub use weights::Weights;
