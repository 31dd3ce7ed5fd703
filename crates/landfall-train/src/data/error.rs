//! Everything that can be wrong with a series, a split or a window request.

use super::message::{among, count, list, one_line};
use super::place::Place;
use super::setting::{Setting, Spelling};
use chrono::NaiveDateTime;

use super::split::{Limits, Segment, needed, ratios};

/// What stands in for dates that are not evenly spaced.
fn without_dates() -> &'static str {
    match Spelling::now() {
        Spelling::Flag => " or none",
        Spelling::Keyword => ", or integers 0, 1, 2, ... for dates",
    }
}

/// What is wrong with the data or with what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Samples of tokens are not as they must be.
    #[error(transparent)]
    Tokens(#[from] super::TokenError),
    /// No forecast from a place in time.
    #[error(transparent)]
    Cutoff(#[from] super::CutoffError),
    /// Numbers, dates or columns are of no form that is known.
    #[error(transparent)]
    Form(#[from] super::FormError),
    /// Covariates are not as they must be.
    #[error(transparent)]
    Covariates(#[from] super::CovariateError),
    /// More than is read.
    #[error(transparent)]
    Limit(#[from] super::LimitError),
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
    /// The file holds nothing.
    #[error("{file}: the file is empty; it needs a header line and rows of numbers")]
    Empty {
        /// Path of the file.
        file: String,
    },
    /// The file holds a header and nothing else.
    #[error("{file}: a header line and no rows; add rows of numbers below it")]
    HeaderOnly {
        /// Path of the file.
        file: String,
    },
    /// The first line is data.
    #[error("{file}: the first line holds values, not column names; add a header line")]
    NoHeader {
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
    /// A header cell is empty.
    #[error("{file}: column {position} has no name; name every column in the header line")]
    UnnamedColumn {
        /// Path of the file.
        file: String,
        /// Position of the column, counted from 1.
        position: usize,
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
    /// A row that says of no series that it belongs to it.
    #[error("{at}: column `{column}` is empty; name the series that the row belongs to", column = one_line(.column))]
    NoSeriesId {
        /// Line of the row.
        at: Place,
        /// The column that names the series.
        column: String,
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
    /// The file has a byte that no text has.
    #[error("{at}: a byte 0, which no text has; save the file as UTF-8 text, and a workbook as CSV")]
    Binary {
        /// Line of the byte.
        at: Place,
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
    /// No file at all.
    #[error("no file to read; name at least one")]
    NoFile,
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
    /// Every series of several is too short.
    #[error("none of {count} series holds a window in each segment; `{name}`: {why}", name = one_line(.name))]
    AllTooShort {
        /// Series there are.
        count: usize,
        /// The first.
        name: String,
        /// Why it holds none.
        why: Box<DataError>,
    },
    /// No series that a run has a scaler for.
    #[error("{file}: no series of the run ({}); give one that it was trained on", list(.known))]
    NoKnownSeries {
        /// The data.
        file: String,
        /// Series of the run.
        known: Vec<String>,
    },
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
    /// An unknown name of a fill rule.
    #[error("no fill `{text}`; choose from previous, linear, zero", text = one_line(.text))]
    UnknownFill {
        /// The name asked for.
        text: String,
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
    /// The reader cannot make rows of the text.
    #[error("{at}: not a table ({reason}); correct the line")]
    Malformed {
        /// Line that the reader had reached.
        at: Place,
        /// What the reader said.
        reason: csv::Error,
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
    /// Mean or standard deviation, or a scaled value, leaves the range of floats.
    #[error(
        "{file}: column `{column}` cannot be scaled, its values span too wide a range; rescale the column",
        column = one_line(.column)
    )]
    Unscalable {
        /// Name of the series.
        file: String,
        /// The column.
        column: String,
    },
    /// A value that no float of 32 bits can tell from others, once it is scaled as the training rows are.
    #[error(
        "{file}: row {row}{date}, column `{column}`: {value:?} is {spread:.0e} standard deviations from the mean of the \
         training rows; correct the value, or leave the column out",
        column = one_line(.column)
    )]
    FarOut {
        /// Name of the series.
        file: String,
        /// The column.
        column: String,
        /// Row, counted from 1.
        row: usize,
        /// Its date, in brackets; empty without dates.
        date: String,
        /// The value.
        value: f64,
        /// Its distance from the mean.
        spread: f64,
    },
    /// Scaler and series differ in their channels.
    #[error("{file}: {series} columns and a scaler for {scaler}; use the columns that the scaler was fit on")]
    ScalerChannels {
        /// Name of the series.
        file: String,
        /// Columns of the series.
        series: usize,
        /// Columns of the scaler.
        scaler: usize,
    },
    /// A stored scaler that no fit can have written.
    #[error(
        "the scaler is damaged ({means} means, {stds} standard deviations; all must be finite, std positive); \
         fit it again"
    )]
    BadScaler {
        /// Number of means.
        means: usize,
        /// Number of standard deviations.
        stds: usize,
    },
    /// A split that is neither three ratios nor a name.
    #[error(
        "split `{text}` cannot be read; write three ratios as `0.7,0.1,0.2`, `last` or `last:24` for the last rows as the test rows, \
         or `ett`",
        text = one_line(.text)
    )]
    BadSplit {
        /// What was given.
        text: String,
    },
    /// Ratios that are not a partition.
    #[error("split {train},{val},{test}: {}", ratios([*train, *val, *test], *sum))]
    BadRatios {
        /// Training share.
        train: f64,
        /// Validation share.
        val: f64,
        /// Test share.
        test: f64,
        /// Their sum.
        sum: f64,
    },
    /// The fixed ETT split on a series that is too short for it.
    #[error("split ett needs {needed} rows, the series has {rows}; use ratios such as `0.7,0.1,0.2`")]
    TooShortForEtt {
        /// Rows needed.
        needed: usize,
        /// Rows there are.
        rows: usize,
    },
    /// No window fits a segment.
    #[error("{}: {limits}", needed(*.segment, *.rows, .limits))]
    TooShort {
        /// The segment.
        segment: Segment,
        /// Its rows, for validation and test with the context rows before it.
        rows: usize,
        /// What would fit.
        limits: Limits,
    },
    /// No window fits a row range.
    #[error("{rows} rows hold no window of context {context} and horizon {horizon}; shorten one of them")]
    NoWindow {
        /// Rows of the range.
        rows: usize,
        /// Context.
        context: usize,
        /// Horizon.
        horizon: usize,
    },
    /// A context of no rows.
    #[error("the context is 0; give at least 1 row")]
    ZeroContext,
    /// A horizon of no rows.
    #[error("the horizon is 0; give at least 1 step")]
    ZeroHorizon,
    /// A seasonal period of no rows, or one longer than the rows before the first value to forecast.
    #[error(
        "a seasonal period of {period} needs as many rows of history, there are {history}; choose 1 to {history}"
    )]
    BadPeriod {
        /// The period.
        period: usize,
        /// Rows before the first value to forecast.
        history: usize,
    },
    /// Error sums of another number of columns than the scores are kept for.
    #[error("errors of {found} columns where {expected} are scored; pass one sum per column")]
    ScoreColumns {
        /// Columns passed.
        found: usize,
        /// Columns scored.
        expected: usize,
    },
    /// Scores asked of no windows.
    #[error("no windows were scored; score at least one")]
    NothingScored,
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
