//! Where something stands in a table.

use std::fmt;

/// What a table is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Lines of a text file, the header included.
    Line,
    /// Rows of a table without lines, from 1.
    Row,
    /// Rows of a data frame, from 0.
    FrameRow,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Line => "line",
            Self::Row | Self::FrameRow => "row",
        })
    }
}

/// A line of a file, printed as `file:line`, or a row of a table without lines or of a data frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Path of the file, as the caller gave it.
    pub file: String,
    /// Number of the line or row, counted from 1; of the row of a data frame, from 0.
    pub line: usize,
    /// Which of them it is.
    pub unit: Unit,
}

impl Place {
    /// A line of a file.
    pub fn line(file: &str, line: usize) -> Self {
        Self { file: file.to_owned(), line, unit: Unit::Line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Line => write!(f, "{}:{}", self.file, self.line),
            Unit::Row => write!(f, "{}, row {}", self.file, self.line),
            Unit::FrameRow => write!(f, "{}, row {} (from 0)", self.file, self.line),
        }
    }
}
