//! Series from a file to windows that a model can train on.
//!
//! In the order the data passes them: [`csv`] reads a file into a [`Series`] with its [`Dates`],
//! [`Segments`] cuts its rows into train, validation and test, [`Scaler`] is fit on the training rows,
//! [`Windows`] names the windows of a segment by their offset, [`Scores`] is what an evaluation over
//! them yields, and [`baseline`] computes it exactly for two forecasts that need no training.
//! [`synthetic`] generates data where no file is at hand.

pub mod baseline;
pub mod csv;
mod dates;
mod error;
mod frequency;
mod scaler;
mod scores;
mod series;
mod split;
pub mod synthetic;
mod windows;

pub use self::baseline::Baseline;
pub use self::csv::{Fill, ReadOptions, read};
pub use self::dates::{DateForm, DateParser, Dates};
pub use self::error::{DataError, Limits, Place};
pub use self::frequency::Frequency;
pub use self::scaler::Scaler;
pub use self::scores::{ColumnScore, ScoreSums, Scores};
pub use self::series::Series;
pub use self::split::{Segment, Segments, Split};
pub use self::windows::Windows;
