//! Rolling-origin evaluation: the errors of forecasts that were made at several origins, as they come in.

mod errors;
mod origins;
mod record;

pub use errors::{ErrorSums, Errors, Unit};
pub(crate) use record::Shown;
pub use record::{Backtest, BaselineErrors, Of, Record, Scored};
