//! Reads a table from a delimited text file.
//!
//! The separator is the one of `,` `;` tab and `|` by which the rows have the most equal number of fields; where none
//! of them separates anything, runs of blanks do if they do so evenly. Lines before the header that are comments (`#`) or
//! have one field where the table has several are left out, and said.

use crate::error::read::ReadError;
use ::csv::{ReaderBuilder, StringRecord};
use std::borrow::Cow;
use std::io::Cursor;

use crate::cells::numbers::{Number, NumberForm};
use crate::dates;
use crate::error::DataError;
use crate::error::limit::LimitError;
use crate::message::count;
use crate::message::place::Place;
use crate::read::limit::check_lines;
use crate::read::options::ReadOptions;
use crate::read::sheet;
use crate::read::sheet::{Sheet, check_fields};
use crate::read::text;
use crate::read::text_column::Texts;

/// Rows that the separator is chosen by.
const SAMPLE: usize = 200;

/// The separator that stands for runs of blanks.
const BLANKS: u8 = b' ';

/// The table that a file's text is.
pub(crate) fn sheet(bytes: &[u8], file: &str, options: &ReadOptions) -> Result<Sheet, DataError> {
    let (text, encoding) = text::decode(bytes, file)?;
    check_lines(&text, file)?;
    let mut notes: Vec<String> = encoding.into_iter().collect();
    let (named, first) = (named_separator(&text), text.lines().next().map_or(0, str::len));
    let below = text.get(if named.is_some() { first } else { 0 }..).unwrap_or_default();
    let separator = match (options.separator, named) {
        (Some(c), _) => {
            u8::try_from(c).map_err(|_| DataError::Read(ReadError::BadSeparator { text: c.to_string() }))?
        }
        (None, Some(named)) => named,
        (None, None) => find_separator(&text),
    };
    // Rows are gone through twice, so that never more than the text and its cells are in memory.
    let rows = || Rows::new(below, file, separator);
    let (mut widths, mut comments) = (Vec::new(), 0);
    let (mut all, mut row) = (rows(), Row::default());
    while all.read(&mut row)? {
        comments += usize::from(comments == widths.len() && row.cell(0).starts_with('#'));
        widths.push(Width::of(&row.cells));
    }
    if widths.is_empty() {
        return Err(DataError::Read(ReadError::Empty { file: file.to_owned() }));
    }
    let data = |at: usize| {
        let row = rows().nth(at).and_then(Result::ok);
        row.is_some_and(|row| row.cells.iter().any(|cell| numeric(cell.trim())))
    };
    let header = header_row(&widths, comments, data);
    if header > 0 {
        notes.push(format!("{} before the header left out", count(header, "line")));
    }
    let second = rows().nth(header + 1).and_then(Result::ok).unwrap_or_default();
    let mut rows = rows();
    for _ in 0..=header {
        rows.read(&mut row)?;
    }
    let first = &row.cells;
    if let Some(most) = options.most.filter(|most| first.len() > most.columns) {
        let (file, found) = (file.to_owned(), first.len());
        return Err(LimitError::Columns { file, found, most: most.columns }.into());
    }
    let mut names: Vec<String> = first.iter().map(|cell| cell.trim().to_owned()).collect();
    if let Some(first) = names.first_mut().filter(|name| name.starts_with('#')) {
        *first = first.trim_start_matches('#').trim().to_owned();
    }
    let second: Vec<&str> = second.cells.iter().map(str::trim).collect();
    if is_data(&names, separator == b';') || is_like(&names, &second) {
        return Err(DataError::Read(ReadError::NoHeader { file: file.to_owned() }));
    }
    let below = widths.get(header + 1..).unwrap_or_default();
    let used = below.iter().map(|width| width.used).max().unwrap_or(0);
    let one_more = names.len() + 1;
    if below.len() > 1 && used == one_more && below.iter().all(|width| width.all == one_more) {
        // Row names without a name of their own, as R writes them.
        names.insert(0, String::new());
    } else if used <= names.len() {
        // Empty fields at the end of rows are no columns, unless one has a name.
        let named = names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
        names.truncate(named.max(used));
    }
    let mut texts = Texts::new(names.len());
    while rows.read(&mut row)? {
        let width = Width::of(&row.cells);
        let fields = if width.used > names.len() { width.used } else { width.all.min(names.len()) };
        check_fields(names.len(), fields, || Place::line(file, row.line))?;
        texts.push(row.line, row.cells.iter());
    }
    let (file, separator) = (file.to_owned(), Some(char::from(separator)));
    Ok(Sheet { file, names, rows: sheet::Rows::Text(texts), separator, notes })
}

/// The separator that a first line `sep=;` names, as Excel reads and writes it.
fn named_separator(text: &str) -> Option<u8> {
    let line = text.lines().next()?.trim_matches(['"', '\u{feff}']);
    let (key, named) = line.split_at_checked(4)?;
    // The line may be filled up with separators to the width of the table.
    let (separator, more) = named.as_bytes().split_first()?;
    let alone = more.iter().all(|byte| byte == separator || *byte == b'"');
    (key.eq_ignore_ascii_case("sep=") && separator.is_ascii() && alone).then_some(*separator)
}

/// How many fields a row has: all, and those up to the last one that is not empty.
#[derive(Clone, Copy)]
struct Width {
    all: usize,
    used: usize,
}

impl Width {
    fn of(cells: &StringRecord) -> Self {
        let last = (0..cells.len()).rfind(|at| cells.get(*at).is_some_and(|cell| !cell.trim().is_empty()));
        let used = last.map_or(0, |last| last + 1);
        Self { all: cells.len(), used }
    }
}

/// The row that names the columns: the first that has as many fields as most rows have, empty ones at the end aside. Rows before
/// it are comments or a preamble, and so is one that says something in its first field alone. The row before that one names the columns
/// if it has one name less and the other holds data: then the first column, of row names, has no name.
///
/// `widths` are those of all rows, the first `comments` of them comments; `data` says whether a row holds numbers.
fn header_row(widths: &[Width], comments: usize, data: impl Fn(usize) -> bool) -> usize {
    let usual = usual_width(widths.iter().map(|width| width.all));
    let used = usual_width(widths.iter().map(|width| width.used));
    let fits = |row: usize| {
        let Some(&width) = widths.get(row) else { return false };
        let fits = width.all == usual || [usual, used].contains(&width.used);
        fits && (width.used > 1 || used == 1)
    };
    let fields = |row: usize| widths.get(row).map_or(0, |width| width.all);
    // The last comment names the columns where the row below it is data.
    if comments > 0 && fits(comments - 1) && data(comments) {
        return comments - 1;
    }
    let at = (comments..widths.len()).find(|row| fits(*row)).unwrap_or(0);
    let nameless = at > comments && fields(at - 1) > 1 && fields(at - 1) + 1 == usual;
    if nameless && data(at) { at - 1 } else { at }
}

/// The most frequent number of fields, of equally frequent ones the larger.
fn usual_width(widths: impl Iterator<Item = usize>) -> usize {
    let mut counts = std::collections::BTreeMap::new();
    for width in widths {
        *counts.entry(width).or_insert(0_usize) += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(1, |(width, _)| width)
}

fn numeric(text: &str) -> bool {
    matches!(NumberForm::POINT.read(text), Number::Finite(_))
}

/// A row of a text file and the line it stands on.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) cells: StringRecord,
}

impl Row {
    /// The cell of a field, without the blanks around it.
    pub(crate) fn cell(&self, field: usize) -> &str {
        self.cells.get(field).unwrap_or_default().trim()
    }
}

/// The rows of a text that are not blank.
pub(crate) struct Rows<'a> {
    file: &'a str,
    reader: ::csv::Reader<Cursor<Cow<'a, [u8]>>>,
    separator: u8,
    /// Bytes whose newlines are counted in `line`. The reader's own line numbers are off after blank
    /// lines and carriage returns, so they are counted here.
    counted: usize,
    line: usize,
}

impl<'a> Rows<'a> {
    /// The rows of a file's bytes, the header among them.
    pub(crate) fn of_text(bytes: &'a [u8], file: &'a str) -> Result<Self, DataError> {
        let (text, _) = text::decode(bytes, file)?;
        let separator = find_separator(&text);
        Ok(Self::of(text, file, separator))
    }

    fn new(text: &'a str, file: &'a str, separator: u8) -> Self {
        Self::of(Cow::Borrowed(text), file, separator)
    }

    fn of(text: Cow<'a, str>, file: &'a str, separator: u8) -> Self {
        let bytes = match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        let reader = ReaderBuilder::new()
            .delimiter(separator)
            .has_headers(false)
            .flexible(true)
            .from_reader(Cursor::new(bytes));
        Self { file, reader, separator, counted: 0, line: 1 }
    }

    /// Whether a number may have a decimal comma.
    pub(crate) fn decimal_comma(&self) -> bool {
        self.separator == b';'
    }

    fn place(&self) -> Place {
        Place::line(self.file, self.line)
    }

    /// Reads the next row into the memory of one before, or says that there is none.
    fn read(&mut self, row: &mut Row) -> Result<bool, DataError> {
        let cells = &mut row.cells;
        loop {
            match self.reader.read_record(cells) {
                Ok(false) => return Ok(false),
                Ok(true) => {}
                Err(reason) => {
                    return Err(DataError::Read(ReadError::Malformed { at: self.place(), reason }));
                }
            }
            let bytes: &[u8] = self.reader.get_ref().get_ref();
            let begin = cells.position().and_then(|p| usize::try_from(p.byte()).ok()).unwrap_or(self.counted);
            let blank = bytes.iter().skip(begin).take_while(|b| matches!(b, b'\r' | b'\n')).count();
            let start = begin + blank;
            self.line += count_newlines(bytes.get(self.counted..start).unwrap_or_default());
            self.counted = start;
            if self.separator == BLANKS {
                // A run of blanks is one separator.
                *cells = cells.iter().filter(|cell| !cell.is_empty()).collect();
            }
            // A line of spaces is as blank as an empty one, and so is one of separators alone.
            if cells.iter().any(|cell| !cell.trim().is_empty()) {
                row.line = self.line;
                return Ok(true);
            }
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut row = Row::default();
        self.read(&mut row).map(|more| more.then_some(row)).transpose()
    }
}

/// The separator by which the most of the first rows have the usual number of fields, at least two. Of equally good ones
/// runs of blanks come last, since they stand in dates and names too, then the one with more fields is taken, and no
/// comma: it is the likeliest part of a name or a number.
fn find_separator(text: &str) -> u8 {
    // A cut row would have fewer fields, so the sample ends with a line.
    let end = text.match_indices('\n').nth(SAMPLE).map_or(text.len(), |(at, _)| at);
    let sample = text.get(..end).unwrap_or(text);
    let score = |&separator: &u8| {
        let rows = Rows::new(sample, "", separator).filter_map(Result::ok);
        let widths: Vec<usize> = rows.map(|row| row.cells.len()).collect();
        let usual = usual_width(widths.iter().copied());
        let even = widths.iter().filter(|w| **w == usual).count();
        let separates = if separator == BLANKS { usual > 1 } else { widths.iter().any(|w| *w > 1) };
        separates.then_some((even, separator != BLANKS, usual, separator != b',', separator))
    };
    [b',', b'\t', b';', b'|', BLANKS].iter().filter_map(score).max().map_or(b',', |best| best.4)
}

fn count_newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b == b'\n').count()
}

/// Whether a header line is a row of data: it starts with a date, or holds numbers only and not all of
/// them counters, which some exporters write for names.
pub(crate) fn is_data(names: &[String], decimal_comma: bool) -> bool {
    let form = if decimal_comma { NumberForm::COMMA } else { NumberForm::POINT };
    let number = |name: &String| matches!(form.read(name), Number::Finite(_)) || numeric(name);
    let counter = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let dated = names.first().is_some_and(|name| !number(name) && dates::is_date(name));
    dated || (names.iter().all(number) && !names.iter().all(counter))
}

/// What a field of the first row and that below it are.
#[derive(PartialEq, Eq)]
enum Sort {
    Empty,
    Number,
    Date,
    Text,
}

impl Sort {
    fn of(text: &str) -> Self {
        match text {
            "" => Self::Empty,
            text if numeric(text) || matches!(NumberForm::COMMA.read(text), Number::Finite(_)) => {
                Self::Number
            }
            text if dates::is_date(text) => Self::Date,
            _ => Self::Text,
        }
    }
}

/// Whether a header is a row of data as the one below it: each field is of the same sort, and one of them is no name: a date, a
/// number that is no counter, or a text that stands below it too.
fn is_like(names: &[String], below: &[&str]) -> bool {
    let counter = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let long_date = |text: &str| counter(text) && text.len() >= 6 && dates::is_date(text);
    let same = names.len() == below.len() && names.iter().zip(below).all(|(a, b)| Sort::of(a) == Sort::of(b));
    same && names.iter().zip(below).any(|(name, below)| match Sort::of(name) {
        Sort::Empty => false,
        Sort::Date => true,
        Sort::Number => !counter(name) || long_date(name) && long_date(below),
        Sort::Text => name == below,
    })
}
