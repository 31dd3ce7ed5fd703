//! The sections of a report.

mod errors;
mod forecasts;
mod head;
pub(super) mod style;
mod training;

pub(super) use errors::{errors, residuals};
pub(super) use forecasts::Forecasts;
pub(super) use head::{facts, made, samples, verdict};
pub(super) use training::curves;
