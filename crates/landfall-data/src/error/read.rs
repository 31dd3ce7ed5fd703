//! What is wrong with a file or a table, before it is series.

use crate::message::place::Place;
use crate::message::setting::Setting;
use crate::message::{count, one_line};

/// What is wrong with a file or a table, before it is series.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file does not exist.
    #[error("{file}: no such file; check the path")]
    FileMissing {
        /// Path of the file.
        file: String,
    },
    /// The file exists and cannot be read.
    #[error("{file}: cannot be read ({reason}); check that it is a file and its permissions")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The file is not UTF-8 text.
    #[error("{at}: not valid UTF-8; save the file as UTF-8 text")]
    NotUtf8 {
        /// Line of the first invalid byte.
        at: Place,
    },
    /// The file has a byte that no text has.
    #[error("{at}: a byte 0, which no text has; save the file as UTF-8 text, and a workbook as CSV")]
    Binary {
        /// Line of the byte.
        at: Place,
    },
    /// The file holds nothing.
    #[error("{file}: the file is empty; it needs a header line and rows of numbers")]
    Empty {
        /// Path of the file.
        file: String,
    },
    /// The first line is data.
    #[error("{file}: the first line holds values, not column names; add a header line")]
    NoHeader {
        /// Path of the file.
        file: String,
    },
    /// A header cell is empty.
    #[error("{file}: column {position} has no name; name every column in the header line")]
    UnnamedColumn {
        /// Path of the file.
        file: String,
        /// Position of the column, counted from 1.
        position: usize,
    },
    /// A row with more or fewer fields than the header.
    #[error("{at}: {} where the header has {expected}; correct the row", count(*.found, "field"))]
    Ragged {
        /// Line of the row.
        at: Place,
        /// Fields in the row.
        found: usize,
        /// Fields in the header.
        expected: usize,
    },
    /// The reader cannot make rows of the text.
    #[error("{at}: not a table ({reason}); correct the line")]
    Malformed {
        /// Line that the reader had reached.
        at: Place,
        /// What the reader said.
        reason: csv::Error,
    },
    /// A cell that is text.
    #[error(
        "{at}: column `{column}`: `{text}` is not a number; {advice}",
        text = one_line(.text), column = one_line(.column)
    )]
    NotANumber {
        /// Line of the cell.
        at: Place,
        /// Column of the cell.
        column: String,
        /// What the cell says.
        text: String,
        /// What to do.
        advice: String,
    },
    /// A cell that is infinite or too large for a 64-bit float.
    #[error("{at}: column `{column}`: `{text}` is infinite; correct or clear the cell", text = one_line(.text), column = one_line(.column))]
    Infinite {
        /// Line of the cell.
        at: Place,
        /// Column of the cell.
        column: String,
        /// What the cell says.
        text: String,
    },
    /// A row that says of no series that it belongs to it.
    #[error("{at}: column `{column}` is empty; name the series that the row belongs to", column = one_line(.column))]
    NoSeriesId {
        /// Line of the row.
        at: Place,
        /// The column that names the series.
        column: String,
    },
    /// No file at all.
    #[error("no file to read; name at least one")]
    NoFile,
    /// A Parquet file, and a program that was built without a reader of them.
    #[error(
        "{file}: this build does not read Parquet; build it with `cargo build --release --features parquet`, \
         or save the table as CSV"
    )]
    NoParquet {
        /// Path of the file.
        file: String,
    },
    /// A Parquet file that cannot be decoded.
    #[error("{file}: not a readable Parquet file ({reason}); write it again")]
    BadParquet {
        /// Path of the file.
        file: String,
        /// What the reader said.
        reason: String,
    },
    /// A date in no known form, or in another form than the rows before.
    #[error(
        "{at}: column `{column}`: date `{text}` cannot be read; {advice}",
        text = one_line(.text), column = one_line(.column)
    )]
    BadDate {
        /// Line of the cell.
        at: Place,
        /// Name of the date column.
        column: String,
        /// What the cell says.
        text: String,
        /// What to do.
        advice: String,
    },
    /// Dates that may be read in two ways.
    #[error(
        "{file}: column `{column}`: dates may be {first} or {second}, and neither the numbers nor an even spacing decide; \
         {advice}",
        column = one_line(.column), first = one_line(.first), second = one_line(.second)
    )]
    AmbiguousDates {
        /// Path of the file.
        file: String,
        /// Name of the date column.
        column: String,
        /// One way.
        first: String,
        /// Another way.
        second: String,
        /// What to do.
        advice: String,
    },
    /// A date format that is none.
    #[error(
        "{} `{text}`: no date with a year can be read by it; use strftime's codes, as in %Y-%m-%d %H:%M:%S, or \
         unix-s, unix-ms, unix-us, unix-ns",
        Setting("date-format"), text = one_line(.text)
    )]
    BadDateFormat {
        /// What was given.
        text: String,
    },
    /// A separator that is more than one byte.
    #[error("{} `{text}`: give one ASCII character, or a blank for runs of blanks", Setting("separator"), text = one_line(.text))]
    BadSeparator {
        /// What was given.
        text: String,
    },
    /// An Arrow file, or batches of Arrow's arrays, that cannot be decoded or written.
    #[error("{file}: not readable as Arrow data ({reason}); write it again")]
    BadArrow {
        /// Path of the file, or what else the data is called.
        file: String,
        /// What the reader said.
        reason: String,
    },
    /// A column of Arrow data whose type has no place in a table of series.
    #[error(
        "{file}: column `{column}` has the type {found}; it must hold numbers, truth values, texts or dates: convert it, or leave \
         it out",
        column = one_line(.column)
    )]
    ArrowType {
        /// Path of the file, or what else the data is called.
        file: String,
        /// The column.
        column: String,
        /// Its type.
        found: String,
    },
}

crate::message::debug_as_text!(ReadError);
