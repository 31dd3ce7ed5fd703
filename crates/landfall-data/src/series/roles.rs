//! What a column beside the targets is: why it is known in advance, how it is scaled, which name it stands for.

use crate::dates::calendar::Calendar;
use crate::message::setting::Setting;

/// Why a column is known in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Whoever forecasts knows its values and gives them.
    Given,
    /// It has one value for each series.
    Fixed,
    /// It follows from the date.
    Calendar(Calendar),
}

impl Known {
    /// The setting that says so.
    pub(crate) const fn setting(self) -> Setting {
        match self {
            Self::Given => Setting("known-future"),
            Self::Fixed => Setting("static"),
            Self::Calendar(_) => Setting("calendar"),
        }
    }
}

/// How a column is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// By the training rows of its series.
    Series,
    /// By its values over all series, as what has one value for each.
    Panel,
    /// Not at all: numbers from −1 to 1.
    Unit,
}

/// Most names of a categorical column.
pub(crate) const MOST_CATEGORIES: usize = 64;

/// The column of a name of a categorical column.
pub(crate) fn indicator(column: &str, category: &str) -> String {
    format!("{column}={category}")
}
