//! The sections of a report.

mod errors;
mod forecasts;
mod head;
mod training;

pub(super) use errors::{errors, residuals};
pub(super) use forecasts::Forecasts;
pub(super) use head::{facts, made, samples, verdict};
pub(super) use training::curves;

/// Width and height of a chart; three stand beside each other on a wide screen.
pub(super) const SIZE: (f64, f64) = (440.0, 260.0);
/// Of a chart as wide as the page.
pub(super) const WIDE: (f64, f64) = (1080.0, 320.0);

/// Class of the n-th baseline.
pub(super) const BASELINES: [&str; 2] = ["last", "seasonal"];
