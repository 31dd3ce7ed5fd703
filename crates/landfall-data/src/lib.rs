//! Data of forecasting: from a file or columns in memory to series, to windows, to scores. It knows no tensor engine.
//!
//! ```text
//!  tokens, synthetic  samples of tokens with classes; generated data
//!  score              errors of forecasts: metrics, quantiles, conformal intervals, baselines
//!  windows            split, scaler, windows, places in time
//!  read               text, cells of a table, its columns, dates and numbers; files
//!  series             Series and Panel, covariates, season, missing values
//!  generated          a simulator of time series
//!  dates              how dates are written, their step, calendar features
//!  cells              one cell of a table and the number that it holds
//!  error              one error for each floor
//!  segment, files, message
//! ```
//!
//! A module imports from lower lines only. In the order that data passes them: [`read()`] or [`Panel::read`] reads files into a
//! [`Panel`] of [`Series`] with their [`Dates`] and [`Season`]; the [`Summary`] says what was found. [`Segments`] divide the rows
//! of each into training, validation and test rows, a [`Scaler`] is fit on the training rows, and both together make a
//! [`WindowedPanel`]. [`Windows`] names the windows of a segment by their offset, [`Scores`] is what an evaluation of them yields,
//! and [`baseline`] computes it exactly for two forecasts that need no training. [`TokenData`] are samples of tokens with classes.
//! [`synthetic`] generates data where no file is at hand, and [`generated`] simulates any number of series.
#![deny(unsafe_code)]

mod cells;
mod dates;
mod error;
pub mod files;
pub mod generated;
mod message;
mod read;
mod score;
mod segment;
mod series;
pub mod synthetic;
mod tokens;
mod windows;

pub use crate::dates::Dates;
pub use crate::dates::calendar::Calendar;
pub use crate::dates::form::DateForm;
pub use crate::dates::frequency::{Frequency, Gap, MonthDay, Spacing};
pub use crate::dates::purpose::Purpose;
pub use crate::error::DataError;
pub use crate::error::covariates::CovariateError;
pub use crate::error::cutoff::CutoffError;
pub use crate::error::form::FormError;
pub use crate::error::generated::GeneratedError;
pub use crate::error::limit::LimitError;
pub use crate::error::read::ReadError;
pub use crate::error::score::ScoreError;
pub use crate::error::series::SeriesError;
pub use crate::error::tokens::TokenError;
pub use crate::error::windows::{Limits, WindowError};
pub use crate::message::nearest::{nearest, with_nearest};
pub use crate::message::place::{Place, Unit};
pub use crate::message::setting::{Setting, Spelling};
pub use crate::message::{count, few, printable};
pub use crate::read::frame::Frame;
pub use crate::read::limit::Most;
pub use crate::read::options::ReadOptions;
pub use crate::read::records::Records;
pub use crate::read::typed::{Column, MISSING_DATE, TimeUnit};
pub use crate::read::{parse, read};
pub use crate::score::baseline::{self, Baseline};
pub use crate::score::conformal;
pub use crate::score::metrics::{MetricSums, Metrics, finite, seasonal_scale, symmetric_percent};
pub use crate::score::prior::Prior;
pub use crate::score::quantile_scores::{LevelScores, QuantileScores, QuantileSums};
pub use crate::score::{ColumnScore, ScoreSums, Scores};
pub use crate::segment::Segment;
pub use crate::series::Series;
pub use crate::series::covariates::{Covariates, Future, ahead};
pub use crate::series::fill::Fill;
pub use crate::series::found::Found;
pub use crate::series::panel::Panel;
pub use crate::series::roles::Known;
pub use crate::series::season::Season;
pub use crate::series::summary::Summary;
pub use crate::tokens::{TokenData, TokenNames, TokenSegments};
pub use crate::windows::Windows;
pub use crate::windows::cutoff::Cutoff;
pub use crate::windows::digits::Digits;
pub use crate::windows::origins::{Origins, Range as OriginRange};
pub use crate::windows::scaler::{Scaler, Scaling};
pub use crate::windows::scalers::Scalers;
pub use crate::windows::split::{Segments, Split, Validation};
pub use crate::windows::window_forecast::WindowForecast;
pub use crate::windows::windowed::{Member, Part, WindowedPanel};

/// What the documents show in Rust is a test.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../docs/simulator.md")]
    mod simulator {}
}
