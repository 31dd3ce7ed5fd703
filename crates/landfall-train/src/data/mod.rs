//! Series from a file to windows that a model can train on.
//!
//! In the order the data passes them: [`csv`] (and, behind a feature, Parquet) reads a file into a table of cells, and a
//! [`Frame`], in memory or in an Arrow file, is one with typed columns; it
//! finds the columns that hold dates, series and numbers, and the [`Season`], and makes a [`Panel`] of [`Series`] with their
//! [`Dates`] of them; the [`Summary`] says what it found. [`Segments`] cuts the rows of each into train, validation and test, a [`Scaler`]
//! is fit on its training rows, and both together make a [`WindowedPanel`]. [`Windows`] names the windows of a segment
//! by their offset, [`Scores`] is what an evaluation over them yields, and [`baseline`] computes it exactly for two
//! forecasts that need no training. [`TokenData`] are samples of tokens with classes, which are read and divided on their
//! own. [`synthetic`] generates data where no file is at hand.

mod arrow;
pub mod baseline;
mod calendar;
mod cell;
mod columns;
pub mod conformal;
mod covariates;
pub mod csv;
mod cutoff;
mod dates;
mod decimal;
mod digits;
mod error;
mod facts;
mod fill;
mod form_error;
mod frame;
mod frequency;
mod limit;
mod long;
mod message;
mod metrics;
mod names;
mod number_form;
mod numbers;
mod origins;
mod panel;
#[cfg(feature = "parquet")]
mod parquet;
mod place;
mod prior;
mod purpose;
mod quantile_scores;
mod records;
mod scaler;
mod scalers;
mod scores;
mod season;
mod series;
mod setting;
mod sheet;
mod split;
mod summary;
pub mod synthetic;
mod table;
mod text;
mod text_column;
mod tokens;
mod units;
mod window_forecast;
mod windowed;
mod windows;

pub use self::baseline::Baseline;
pub use self::calendar::Calendar;
pub use self::covariates::{CovariateError, Covariates, Future, Known, ahead};
pub use self::cutoff::{Cutoff, CutoffError};
pub use self::dates::{DateForm, Dates};
pub use self::digits::Digits;
pub use self::error::DataError;
pub use self::fill::Fill;
pub use self::form_error::FormError;
pub use self::frame::{Column, Frame, MISSING_DATE, TimeUnit};
pub use self::frequency::{Frequency, Gap, MonthDay, Spacing};
pub use self::limit::{LimitError, Most};
pub use self::message::{few, printable};
pub use self::metrics::{MetricSums, Metrics};
pub use self::origins::{Origins, Range as OriginRange};
pub use self::panel::{Found, Panel, read};
pub use self::place::{Place, Unit};
pub use self::prior::Prior;
pub use self::purpose::Purpose;
pub use self::quantile_scores::{LevelScores, QuantileScores, QuantileSums};
pub use self::records::Records;
pub use self::scaler::{Scaler, Scaling};
pub use self::scalers::Scalers;
pub use self::scores::{ColumnScore, ScoreSums, Scores};
pub use self::season::Season;
pub use self::series::Series;
pub use self::setting::{Setting, Spelling};
pub use self::sheet::ReadOptions;
pub use self::split::{Limits, Segment, Segments, Split, Validation};
pub use self::summary::Summary;
pub use self::tokens::{TokenData, TokenError, TokenNames, TokenSegments};
pub use self::window_forecast::WindowForecast;
pub use self::windowed::{Member, WindowedPanel};
pub use self::windows::Windows;

pub(crate) use self::metrics::{finite, seasonal_scale, symmetric_percent};
use self::panel::{file_bytes, only};
