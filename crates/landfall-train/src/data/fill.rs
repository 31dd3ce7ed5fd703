//! What stands in for missing values.

use std::fmt;
use std::str::FromStr;

use super::error::{DataError, Place};

/// What to put in place of a missing value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// The value of the row before; looks at the past only.
    Previous,
    /// The straight line between the values on both sides, counted in rows; at the ends of a column the
    /// nearest value. It looks ahead: a filled row knows of the next value.
    Linear,
    /// Zero.
    Zero,
}

impl FromStr for Fill {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "previous" => Ok(Self::Previous),
            "linear" => Ok(Self::Linear),
            "zero" => Ok(Self::Zero),
            _ => Err(DataError::UnknownFill { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Previous => "previous",
            Self::Linear => "linear",
            Self::Zero => "zero",
        })
    }
}

/// Replaces the NaNs of the column `name`; `first` is the line of the first of them.
pub(super) fn fill_missing(
    name: &str,
    values: &mut [f64],
    fill: Fill,
    first: Place,
) -> Result<(), DataError> {
    let known: Vec<(usize, f64)> = values.iter().copied().enumerate().filter(|(_, v)| !v.is_nan()).collect();
    if fill == Fill::Zero {
        values.iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = 0.0);
        return Ok(());
    }
    let (Some(&(start, _)), Some(&(end, last))) = (known.first(), known.last()) else {
        return Err(DataError::ColumnMissing { file: first.file, column: name.to_owned() });
    };
    if fill == Fill::Previous && start > 0 {
        return Err(DataError::NoPreviousValue { at: first, column: name.to_owned() });
    }
    // What the linear fill of the rows before the first value repeats.
    let mut previous = known.first().copied().unwrap_or((start, last));
    let mut next = known.into_iter().peekable();
    for (row, value) in values.iter_mut().enumerate() {
        while let Some(passed) = next.next_if(|(at, _)| *at <= row) {
            previous = passed;
        }
        if !value.is_nan() {
            continue;
        }
        *value = match (fill, next.peek()) {
            (Fill::Linear, Some(&(after, y))) if row > previous.0 && row < end => {
                let (before, x) = previous;
                let share = (row - before) as f64 / (after - before) as f64;
                // Weights, not a slope: y - x may overflow where both values do not.
                x * (1.0 - share) + y * share
            }
            (Fill::Linear | Fill::Previous | Fill::Zero, _) => previous.1,
        };
    }
    Ok(())
}
