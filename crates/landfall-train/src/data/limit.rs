//! How much of a table is read at most.

use super::DataError;
use super::place::Place;

/// MiB of a line, at most: a header of 100,000 columns has 2.
const LONGEST_LINE: usize = 64;

/// The most that a table of a stranger may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Columns.
    pub columns: usize,
    /// Series.
    pub series: usize,
}

/// A table that has more than is read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// More columns than [`Most::columns`].
    #[error(
        "{file}: {found} columns, and at most {most} are read; leave those out that the run does not read"
    )]
    Columns {
        /// Path of the file.
        file: String,
        /// Columns there are.
        found: usize,
        /// The most there may be.
        most: usize,
    },
    /// More series than [`Most::series`].
    #[error("{file}: more than {most} series; give fewer at once")]
    Series {
        /// Path of the file.
        file: String,
        /// The most there may be.
        most: usize,
    },
    /// A line that is longer than those of tables are.
    #[error("{at}: a line of {found} MiB, and lines have {most} at most; is it a CSV, with a row per line?")]
    Line {
        /// The line.
        at: Place,
        /// Its length in MiB.
        found: usize,
        /// The most that is read.
        most: usize,
    },
}

/// Whether the lines of a text may be those of a table: a longer one would take its memory many times over.
pub(super) fn check_lines(text: &str, file: &str) -> Result<(), DataError> {
    let lines = text.as_bytes().split(|byte| matches!(byte, b'\n' | b'\r'));
    let long = lines.enumerate().find(|(_, line)| line.len() > LONGEST_LINE << 20);
    long.map_or(Ok(()), |(line, long)| {
        let (at, found) = (Place::line(file, line + 1), long.len() >> 20);
        Err(LimitError::Line { at, found, most: LONGEST_LINE }.into())
    })
}
