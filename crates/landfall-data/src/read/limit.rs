//! How much of a table is read at most.

use crate::error::DataError;
use crate::error::limit::LimitError;
use crate::message::place::Place;

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

/// Whether the lines of a text may be those of a table: a longer one would take its memory many times over.
pub(crate) fn check_lines(text: &str, file: &str) -> Result<(), DataError> {
    let lines = text.as_bytes().split(|byte| matches!(byte, b'\n' | b'\r'));
    let long = lines.enumerate().find(|(_, line)| line.len() > LONGEST_LINE << 20);
    long.map_or(Ok(()), |(line, long)| {
        let (at, found) = (Place::line(file, line + 1), long.len() >> 20);
        Err(LimitError::Line { at, found, most: LONGEST_LINE }.into())
    })
}
