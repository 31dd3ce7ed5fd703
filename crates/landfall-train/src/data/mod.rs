//! Series from a file to windows that a model can train on.

pub mod baseline;
pub mod csv;
mod dates;
mod error;
mod frequency;
mod scaler;
mod scores;
mod series;
mod split;
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
