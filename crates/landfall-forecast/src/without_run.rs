//! Forecasts without a run: series that nothing was trained on, by pretrained weights; their scores, and the training of a Chronos-2.

mod forecaster;
mod reading;
mod roles;
mod spread;
mod tuning;
mod windows;

pub use forecaster::{PanelForecaster, Prepared};
pub use reading::{check, check_future, future_options, load_future, series, series_of_frame, unused};
pub use roles::Roles;
pub use spread::{INTERVAL, Rows, Spread};
pub use tuning::{NewTuning, Tested, Tuning};
pub use windows::{SCORED, Scoring};
