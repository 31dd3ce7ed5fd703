//! Reads a series from a delimited text file.
//!
//! One header line, then one row per time step. The separator (`,`, `;`, tab, `|` or blanks) is the most frequent of
//! them in the header line. With `;` a number may have a decimal comma.

use ::csv::{ReaderBuilder, StringRecord};

use super::dates::Forms;
use super::error::{DataError, Place};
use super::number::{Number, number};
use super::series::Series;
use super::table::{Header, Read, ReadOptions, Row, assemble};

/// Reads the text of a file that holds one series; `file` names it in messages and becomes the series' source.
///
/// # Errors
/// Whatever keeps the text from being one series, with the line and the column where there is one.
pub fn parse(bytes: &[u8], file: &str, options: &ReadOptions) -> Result<Series, DataError> {
    super::only(parse_all(bytes, file, options)?.series, file)
}

/// Reads all series of a file's text.
pub(super) fn parse_all(bytes: &[u8], file: &str, options: &ReadOptions) -> Result<Read, DataError> {
    let mut rows = Rows::of_text(bytes, file, options.separator)?;
    let header = match rows.next() {
        None => return Err(DataError::Empty { file: file.to_owned() }),
        Some(header) => header?.cells,
    };
    let names: Vec<String> = header.iter().map(|cell| cell.trim().to_owned()).collect();
    if is_data(&names, rows.decimal_comma) {
        return Err(DataError::NoHeader { file: file.to_owned() });
    }
    let (names, renamed) = distinct(names);
    let header = Header { file, names, decimal_comma: rows.decimal_comma };
    let bytes = rows.bytes;
    let separator = rows.separator;
    let body = || Rows::new(bytes, file, separator).skip(1);
    let mut read = assemble(&header, body, options)?;
    read.notes.extend(renamed);
    Ok(read)
}

/// Names of which none is there twice: a second `a` becomes `a.1`, as pandas has it; and what was renamed, in words.
fn distinct(names: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut seen, mut renamed) = (std::collections::HashSet::new(), Vec::new());
    let one = |name: String| {
        let mut own = name.clone();
        let mut number = 0;
        while !seen.insert(own.clone()) {
            number += 1;
            own = format!("{name}.{number}");
        }
        if own != name {
            renamed.push(format!("a second column `{name}` is called `{own}`"));
        }
        own
    };
    (names.into_iter().map(one).collect(), renamed)
}

/// Whether a header line is a row of data: it starts with a date, or holds numbers only and not all of
/// them counters, which some exporters write for names.
pub(super) fn is_data(names: &[String], decimal_comma: bool) -> bool {
    let numeric = |name: &String| matches!(number(name, decimal_comma), Number::Finite(_));
    let counter = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let dated = names.first().is_some_and(|name| !counter(name) && Forms::new(false).push(name));
    dated || (names.iter().all(numeric) && !names.iter().all(counter))
}

/// The rows of a file that are not blank.
pub(super) struct Rows<'a> {
    file: &'a str,
    bytes: &'a [u8],
    reader: ::csv::Reader<&'a [u8]>,
    decimal_comma: bool,
    separator: char,
    /// Bytes whose newlines are counted in `line`. The reader's own line numbers are off after blank
    /// lines and carriage returns, so they are counted here.
    counted: usize,
    line: usize,
}

impl<'a> Rows<'a> {
    /// The rows of a file's text, the header among them.
    pub(super) fn of_text(
        bytes: &'a [u8],
        file: &'a str,
        separator: Option<char>,
    ) -> Result<Self, DataError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if let Err(error) = std::str::from_utf8(bytes) {
            let line = 1 + count_newlines(bytes.get(..error.valid_up_to()).unwrap_or(bytes));
            return Err(DataError::NotUtf8 { at: Place { file: file.to_owned(), line } });
        }
        Ok(Self::new(bytes, file, separator.unwrap_or_else(|| found(bytes))))
    }

    /// Whether a number may have a decimal comma.
    pub(super) fn decimal_comma(&self) -> bool {
        self.decimal_comma
    }

    fn new(bytes: &'a [u8], file: &'a str, separator: char) -> Self {
        let delimiter = u8::try_from(separator).unwrap_or(b',');
        let reader =
            ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(bytes);
        Self { file, bytes, reader, decimal_comma: separator == ';', separator, counted: 0, line: 1 }
    }

    fn place(&self) -> Place {
        Place { file: self.file.to_owned(), line: self.line }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut cells = StringRecord::new();
        loop {
            match self.reader.read_record(&mut cells) {
                Ok(false) => return None,
                Ok(true) => {}
                Err(reason) => return Some(Err(DataError::Malformed { at: self.place(), reason })),
            }
            let begin = cells.position().and_then(|p| usize::try_from(p.byte()).ok()).unwrap_or(self.counted);
            let blank = self.bytes.iter().skip(begin).take_while(|b| matches!(b, b'\r' | b'\n')).count();
            let start = begin + blank;
            self.line += count_newlines(self.bytes.get(self.counted..start).unwrap_or_default());
            self.counted = start;
            // A line of spaces is as blank as an empty one.
            if cells.iter().any(|cell| !cell.trim().is_empty()) {
                if self.separator == ' ' {
                    // Blanks line columns up: several of them are one.
                    cells = cells.iter().filter(|cell| !cell.is_empty()).collect();
                }
                return Some(Ok(Row { line: self.line, cells }));
            }
        }
    }
}

/// The most frequent of the separators in the header line, outside quotes; blanks where there is no other.
fn found(bytes: &[u8]) -> char {
    let mut quoted = false;
    let mut counts = [(',', 0_usize), ('|', 0), ('\t', 0), (';', 0)];
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let line = |bytes: &'_ [u8]| -> Vec<u8> {
        bytes.iter().copied().take_while(|b| !matches!(b, b'\r' | b'\n')).collect()
    };
    let header = line(bytes.get(start..).unwrap_or_default());
    for &byte in &header {
        quoted ^= byte == b'"';
        for (separator, count) in &mut counts {
            *count += usize::from(!quoted && *separator == char::from(byte));
        }
    }
    // Of equally frequent ones the later in the list: a comma is the likeliest part of a name.
    match counts.iter().max_by_key(|(_, count)| *count) {
        Some(&(separator, count)) if count > 0 => separator,
        _ => {
            // Blanks separate where the next line has as many words: a name of several words is one column.
            let words = |line: &[u8]| line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).count();
            let rest = bytes.get(start + header.len()..).unwrap_or_default();
            let next = rest.iter().position(|b| !b.is_ascii_whitespace()).map(|at| line(&rest[at..]));
            let columns = words(&header);
            if columns > 1 && next.is_some_and(|next| words(&next) == columns) { ' ' } else { ',' }
        }
    }
}

fn count_newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::super::Fill;
    use super::*;

    fn values(text: &str, fill: Option<Fill>) -> Vec<Vec<f64>> {
        let options = ReadOptions { fill, ..ReadOptions::default() };
        parse(text.as_bytes(), "f", &options).expect(text).values().to_vec()
    }

    #[test]
    fn a_separator_is_found_in_the_header() {
        for text in ["a,b\n1,2.5\n", "a;b\n1;2,5\n", "a;b\n1;2.5\n", "a\tb\n1\t2.5\n", "\"a;x;y\",b\n1,2.5"] {
            assert_eq!(values(text, None), [[1.0], [2.5]], "{text:?}");
        }
        assert_eq!(values("temp, C;b\n1,5;2", None), [[1.5], [2.0]]);
        assert_eq!(values("a\n1.5\n", None), [[1.5]]);
        assert_eq!(values("\u{feff}\r\na;b\r\n1,5;2\r\n", None), [[1.5], [2.0]]);
    }

    #[test]
    fn missing_values_are_filled() {
        let text = "a,b\n1,\n-,3\nNaN,NULL\n4,na\n";
        assert_eq!(values(text, Some(Fill::Zero)), [[1.0, 0.0, 0.0, 4.0], [0.0, 3.0, 0.0, 0.0]]);
        assert_eq!(values(text, Some(Fill::Linear)), [[1.0, 2.0, 3.0, 4.0], [3.0; 4]]);
        assert_eq!(values("a\n1\n-\n-\n2\n-", Some(Fill::Previous)), [[1.0, 1.0, 1.0, 2.0, 2.0]]);
        let wide = format!("a\n{}\n-\n{}\n", f64::MAX, -f64::MAX);
        assert_eq!(values(&wide, Some(Fill::Linear)), [[f64::MAX, 0.0, -f64::MAX]]);
    }

    #[test]
    fn the_first_column_is_a_date_by_name_or_by_its_cells() {
        let dated = |text: &str| {
            let series = parse(text.as_bytes(), "f", &ReadOptions::default()).expect(text);
            series.dates().map(|d| d.column().to_owned())
        };
        assert_eq!(dated("DateTime,a\n2016-07-01,1"), Some("DateTime".to_owned()));
        assert_eq!(dated("when,a\n2016-07-01,1"), Some("when".to_owned()));
        assert_eq!(dated(",a\n2016-07-01,1"), Some("date".to_owned()));
        assert_eq!(dated("timestamp,a\n1467331200,1"), Some("timestamp".to_owned()));
        assert_eq!(dated("year,a\n2016,1"), Some("year".to_owned()));
        assert_eq!(dated("0,1,2\n1,2,3"), None);
    }

    #[test]
    fn columns_are_picked_in_the_order_asked() {
        let options =
            ReadOptions { columns: Some(vec!["c".to_owned(), "a".to_owned()]), ..ReadOptions::default() };
        let series = parse(b"date,a,b,c\n2016-07-01,1,text,3\n", "f", &options).expect("two columns");
        assert_eq!(series.columns(), ["c", "a"]);
        assert_eq!(series.values(), [[3.0], [1.0]]);
    }
}
