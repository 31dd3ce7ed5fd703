//! What is wrong with series, their columns, dates and values.

use crate::message::place::Place;
use crate::message::setting::{Setting, Spelling};
use crate::message::{among, count, one_line};
use chrono::NaiveDateTime;

/// What is wrong with series, their columns, dates and values.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// The file holds a header and nothing else.
    #[error("{file}: a header line and no rows; add rows of numbers below it")]
    HeaderOnly {
        /// Path of the file.
        file: String,
    },
    /// Nothing to forecast.
    #[error("{file}: no numeric column; a series needs at least one beside the date{why}")]
    NoNumericColumn {
        /// Path of the file.
        file: String,
        /// The first cell of a column that keeps it from being one, in brackets.
        why: String,
    },
    /// Two columns share a name.
    #[error("{file}: column `{name}` is there twice; give each column its own name", name = one_line(.name))]
    DuplicateColumn {
        /// Path of the file.
        file: String,
        /// The name.
        name: String,
    },
    /// A column is asked for twice.
    #[error("{file}: column `{name}` is asked for twice; name each column once", name = one_line(.name))]
    RequestedTwice {
        /// Path of the file.
        file: String,
        /// The name.
        name: String,
    },
    /// A requested column does not exist.
    #[error("{file}: no column `{name}`{}; add it or correct its name", among(.name, .known), name = one_line(.name))]
    UnknownColumn {
        /// Path of the file.
        file: String,
        /// The name asked for.
        name: String,
        /// The columns that exist.
        known: Vec<String>,
    },
    /// A column to be forecast holds text.
    #[error("{file}: column `{name}` holds text, and what is forecast must be numbers; choose another column", name = one_line(.name))]
    TextTarget {
        /// Path of the file.
        file: String,
        /// The column.
        name: String,
    },
    /// One series is needed, and the data holds others too.
    #[error("{file}: {count} series where one is needed; choose one")]
    ManySeries {
        /// Path of the file.
        file: String,
        /// Series there are.
        count: usize,
    },
    /// Nothing to forecast.
    #[error(
        "no target column; name at least one, or leave {} out to forecast all columns",
        Setting("target")
    )]
    NoTarget,
    /// Two series of one name.
    #[error("{file} and {other} hold series of one name, `{name}`; rename one of them", name = one_line(.name))]
    DuplicateSeries {
        /// Where the first comes from.
        file: String,
        /// Where the second comes from.
        other: String,
        /// Their name.
        name: String,
    },
    /// Series of different columns.
    #[error(
        "{file}: {has} column `{column}`, unlike {other}; give all series the same columns, or choose with {}",
        Setting("columns"), column = one_line(.column)
    )]
    OtherColumns {
        /// The series that differs.
        file: String,
        /// `no`, or `it has a`.
        has: &'static str,
        /// The column.
        column: String,
        /// The first series.
        other: String,
    },
    /// Names and columns of a series differ in number.
    #[error("{file}: {names} names for {columns} columns; give one name per column")]
    NameCount {
        /// Name of the series.
        file: String,
        /// Names given.
        names: usize,
        /// Columns given.
        columns: usize,
    },
    /// Columns of a series differ in length.
    #[error("{file}: column `{column}` has {found} values and the series {expected} rows; make them equal", column = one_line(.column))]
    ColumnLength {
        /// Name of the series.
        file: String,
        /// The column, or the date column.
        column: String,
        /// Its values.
        found: usize,
        /// Rows of the series.
        expected: usize,
    },
    /// A value of a series is NaN or infinite.
    #[error("{file}: column `{column}`, row {row}: the value is not finite; replace it", column = one_line(.column))]
    NotFinite {
        /// Name of the series.
        file: String,
        /// The column.
        column: String,
        /// Row, counted from 1.
        row: usize,
    },
    /// Fewer rows than needed.
    #[error("{file}: {} where {needed} are needed; give a longer series", count(*.rows, "row"))]
    TooFewRows {
        /// Name of the series.
        file: String,
        /// Rows there are.
        rows: usize,
        /// Rows needed.
        needed: usize,
    },
    /// A row range outside the series.
    #[error("rows {start}..{end} are not within the {rows} rows of {file}; choose a range inside")]
    RowRange {
        /// Name of the series.
        file: String,
        /// First row.
        start: usize,
        /// Row after the last.
        end: usize,
        /// Rows of the series.
        rows: usize,
    },
    /// A column without a single value.
    #[error("{file}: column `{column}` has no value at all; {advice}", column = one_line(.column))]
    ColumnMissing {
        /// Path of the file.
        file: String,
        /// The column.
        column: String,
        /// What to do.
        advice: String,
    },
    /// A missing value at the start of a column, to be filled from the previous one.
    #[error(
        "{at}: column `{column}` starts with missing values, so no previous value fills them; {advice}",
        column = one_line(.column)
    )]
    NoPreviousValue {
        /// Line of the first cell.
        at: Place,
        /// Column of the cell.
        column: String,
        /// What to do.
        advice: String,
    },
    /// An unknown name of a fill rule.
    #[error("no fill `{text}`; choose from previous, linear, zero", text = one_line(.text))]
    UnknownFill {
        /// The name asked for.
        text: String,
    },
    /// Columns that go on after the last value of others.
    #[error("{file}: {what}; {advice}")]
    KnownAhead {
        /// Name of the series.
        file: String,
        /// Which columns, and how many rows.
        what: String,
        /// What to do.
        advice: String,
    },
    /// Rows to be inserted where no dates say where.
    #[error(
        "{file}: {gaps} needs dates, and the file has none; add a date column or leave {gaps} out",
        gaps = Setting("fill-gaps")
    )]
    GapsWithoutDates {
        /// Name of the series.
        file: String,
    },
    /// Dates that no inserted rows make even.
    #[error(
        "{file}: row {row} steps from {previous} to {date}, no whole number of steps ({step}), so no rows can be \
         inserted between them; correct the dates or leave {} out",
        Setting("fill-gaps")
    )]
    UnevenDates {
        /// Name of the series.
        file: String,
        /// Row, counted from 1.
        row: usize,
        /// Date of the row before.
        previous: NaiveDateTime,
        /// Date of the row.
        date: NaiveDateTime,
        /// The usual step.
        step: String,
    },
    /// More rows to be inserted than there are.
    #[error(
        "{file}: the dates skip {missing} rows and there are {rows}; correct the dates or leave {} out",
        Setting("fill-gaps")
    )]
    GapsTooWide {
        /// Name of the series.
        file: String,
        /// Rows to be inserted.
        missing: usize,
        /// Rows there are.
        rows: usize,
    },
    /// A date before the one in the row above.
    #[error("{at}: date {date} is before {previous} in the row above; sort the rows by date")]
    DatesDescend {
        /// Line of the later row.
        at: Place,
        /// Date of the row above.
        previous: NaiveDateTime,
        /// Date of this row.
        date: NaiveDateTime,
    },
    /// A date that is there twice, with different values.
    #[error(
        "{at}: date {date} stands in {} {before} too, with other values; {advice}", .at.unit
    )]
    DuplicateDate {
        /// Line of the second row.
        at: Place,
        /// Line of the first one.
        before: usize,
        /// The date.
        date: NaiveDateTime,
        /// What to do.
        advice: String,
    },
    /// The dates do not continue in a known step.
    #[error("the dates cannot be continued: {why}; give evenly spaced dates{}", without_dates())]
    NoFrequency {
        /// What is uneven.
        why: String,
    },
    /// Dates past the end of the calendar.
    #[error("{steps} steps after {last} leave the calendar; check the dates")]
    PastCalendar {
        /// Last date of the series.
        last: NaiveDateTime,
        /// Steps asked for.
        steps: usize,
    },
    /// A generated data set of an impossible size.
    #[error("cannot generate {shape}; every size must be at least 1 and their product fit in memory")]
    BadSize {
        /// The sizes asked for.
        shape: String,
    },
}

crate::message::debug_as_text!(SeriesError);

/// What stands in for dates that are not evenly spaced.
fn without_dates() -> &'static str {
    match Spelling::now() {
        Spelling::Key | Spelling::Flag => " or none",
        Spelling::Keyword => ", or integers 0, 1, 2, ... for dates",
    }
}
