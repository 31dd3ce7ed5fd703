//! The library of forecasting, for Rust, Python and the program: from [`run::Settings`] and data to a run that is chosen, trained,
//! tested, forecast from, reported and exported.
//!
//! ```text
//!  comparing   a leaderboard of forecasters, each a run
//!  backtesting, forecasting, training  the three jobs, step by step, which print nothing
//!  without_run pretrained weights without a run: forecasts, scores, and the training of a Chronos-2 on files
//!  table       forecasts as CSV and JSON
//!  report      a page for each run and backtest
//!  export      a run as an ONNX model
//!  backtest    forecasts from past origins
//!  run         settings, a run's folder, training and choice, forecasts, intervals
//!  choice      candidates, folds and what they tell
//!  pretrained  weights of other projects
//!  ensemble    the pretrained forecaster and statistical models of each series
//!  pretrained_network  one of the two below, by its weights
//!  chronos     forecasts by the weights of Chronos-2 and Chronos-Bolt, and training on series of one's own
//!  zero_shot   a forecaster of unknown series, and its pretraining
//! ```
//!
//! A module imports from lower lines, from [`landfall_train`] and from [`landfall_data`].
#![deny(unsafe_code)]

pub mod backtest;
pub mod backtesting;
pub mod choice;
pub mod chronos;
pub mod comparing;
pub mod ensemble;
mod error;
pub mod export;
pub mod forecasting;
mod precision;
pub mod pretrained;
pub mod pretrained_network;
pub mod report;
pub mod run;
pub mod table;
pub mod training;
pub mod without_run;
pub mod zero_shot;

pub use error::ForecastError;

use landfall_train::{checkpoint, data, files, models, nn, train};

/// What the documents show in Rust is a test.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../docs/tutorial/08-forecasting.md")]
    mod forecasting {}
    #[doc = include_str!("../../../docs/pretraining.md")]
    mod pretraining {}
}
