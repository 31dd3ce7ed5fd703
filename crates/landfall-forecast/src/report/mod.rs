//! What a person looks at: the forecasts of the test windows as a table, and a run as pictures.
//!
//! A page is made in this order: `collect` sums up the test windows and keeps those that are shown, `curves` reads the
//! metrics of the steps, `sections` makes charts and tables of both, `page` puts them into one file. Charts are
//! drawn by `svg`, which knows nothing of runs.

mod backtest;
mod cell;
mod collect;
mod curves;
mod histogram;
mod page;
mod plot;
mod predictions;
mod run_report;
mod sections;
mod style;
mod svg;
mod table;

pub use backtest::{BacktestFacts, backtest};
pub use cell::name_cell;
pub use plot::plot;
pub use predictions::{PredictedColumns, Predictions, Windows, bound_names};
pub use run_report::{Report, Subject};
pub use svg::digits;
pub use table::table;
