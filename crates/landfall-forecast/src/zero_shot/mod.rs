//! A forecaster of unknown series: its pretraining on simulated ones, its weights, and forecasts with them.

mod error;
mod forecaster;
mod pretraining;
mod quantile;
mod recipe;
mod unit;
mod weights;

pub use error::ZeroShotError;
pub(crate) use forecaster::POWER;
pub use forecaster::{Forecaster, MOST_ROWS, Quantiles};
pub use pretraining::{Point, Pretraining, Verdict};
pub use quantile::{normal, quantile, quantile_at};
pub use recipe::{Optimizer, Recipe, Simulation, Validation};
pub(crate) use unit::Unit;
pub use weights::Weights;
