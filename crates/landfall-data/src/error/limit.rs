//! A table that has more than is read.

use crate::message::place::Place;

/// A table that has more than is read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// More columns than [`Most::columns`](crate::Most::columns).
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
    /// More series than [`Most::series`](crate::Most::series).
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

crate::message::debug_as_text!(LimitError);
