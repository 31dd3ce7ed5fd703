//! Dates of a series: the written forms that files use, read and written back alike.

use std::fmt::Write as _;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

use super::frequency::Spacing;
use super::{DataError, Frequency};

/// The way dates are written, so that forecasts continue in the form of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateForm(Form);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    UnixSeconds,
    Calendar(Calendar),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Calendar {
    day_first: bool,
    separator: char,
    /// None while only two-digit months and days were seen: then both ways of writing agree.
    padded: Option<bool>,
    clock: Option<Clock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clock {
    joiner: char,
    padded: Option<bool>,
    seconds: bool,
    fraction_digits: usize,
    utc: &'static str,
}

/// Reads the dates of one column, row by row, all in one form.
///
/// Forms: year-month-day with `-`, `/` or `.`, or day.month.year; then optionally a space or `T` and
/// `h:mm`, `h:mm:ss` or `h:mm:ss.fraction`, and `Z` or `+00:00`. Month/day/year and day/month/year are
/// refused: nothing in the file tells one from the other. Rows without a clock time may be mixed with
/// rows that have one (some exporters drop it at midnight).
#[derive(Debug, Clone)]
pub struct DateParser {
    unix_seconds: bool,
    form: Option<Form>,
}

impl DateParser {
    /// A parser for a column of this name; whole numbers are Unix seconds in a column `timestamp` only.
    pub fn new(column: &str) -> Self {
        Self { unix_seconds: column.eq_ignore_ascii_case("timestamp"), form: None }
    }

    /// Reads one cell; `None` when it is no date or one in another form than the cells before.
    pub fn parse(&mut self, text: &str) -> Option<NaiveDateTime> {
        let (date, form) = match self.unix_seconds.then(|| text.parse::<i64>()) {
            Some(Ok(seconds)) => {
                let date = DateTime::from_timestamp(seconds, 0)?.naive_utc();
                // Milliseconds read as seconds land tens of thousands of years away.
                ((0..=9999).contains(&date.year()).then_some(date)?, Form::UnixSeconds)
            }
            Some(Err(_)) | None => parse_calendar(text)?,
        };
        self.form = Some(match self.form {
            None => form,
            Some(before) => before.merge(form)?,
        });
        Some(date)
    }

    /// The form of the cells read so far; `None` before the first.
    pub fn form(&self) -> Option<DateForm> {
        self.form.map(DateForm)
    }
}

impl Form {
    /// The form that covers both, `None` when one column cannot hold both.
    fn merge(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::UnixSeconds, Self::UnixSeconds) => Some(self),
            (Self::Calendar(a), Self::Calendar(b)) => Some(Self::Calendar(a.merge(b)?)),
            (Self::UnixSeconds, Self::Calendar(_)) | (Self::Calendar(_), Self::UnixSeconds) => None,
        }
    }
}

impl Calendar {
    fn merge(self, other: Self) -> Option<Self> {
        if self.day_first != other.day_first || self.separator != other.separator {
            return None;
        }
        let clock = match (self.clock, other.clock) {
            (Some(a), Some(b)) => Some(a.merge(b)?),
            (a, b) => a.or(b),
        };
        Some(Self { padded: self.padded.or(other.padded), clock, ..self })
    }
}

impl Clock {
    fn merge(self, other: Self) -> Option<Self> {
        (self.joiner == other.joiner && self.utc == other.utc).then(|| Self {
            padded: self.padded.or(other.padded),
            seconds: self.seconds || other.seconds,
            fraction_digits: self.fraction_digits.max(other.fraction_digits),
            ..self
        })
    }
}

impl DateForm {
    /// Writes a date in this form.
    pub fn format(&self, date: NaiveDateTime) -> String {
        let calendar = match self.0 {
            Form::UnixSeconds => return date.and_utc().timestamp().to_string(),
            Form::Calendar(calendar) => calendar,
        };
        let width = if calendar.padded.unwrap_or(true) { 2 } else { 1 };
        let (y, m, d, s) = (date.year(), date.month(), date.day(), calendar.separator);
        let mut text = if calendar.day_first {
            format!("{d:0width$}{s}{m:0width$}{s}{y:04}")
        } else {
            format!("{y:04}{s}{m:0width$}{s}{d:0width$}")
        };
        if let Some(clock) = calendar.clock {
            // Writing to a String cannot fail.
            let _ = clock.write(date.time(), &mut text);
        }
        text
    }
}

impl Clock {
    fn write(&self, time: NaiveTime, text: &mut String) -> std::fmt::Result {
        let width = if self.padded.unwrap_or(true) { 2 } else { 1 };
        write!(text, "{}{:0width$}:{:02}", self.joiner, time.hour(), time.minute())?;
        if self.seconds {
            write!(text, ":{:02}", time.second())?;
        }
        if self.fraction_digits > 0 {
            let nanoseconds = format!("{:09}", time.nanosecond());
            write!(text, ".{}", nanoseconds.get(..self.fraction_digits).unwrap_or(&nanoseconds))?;
        }
        text.push_str(self.utc);
        Ok(())
    }
}

fn parse_calendar(text: &str) -> Option<(NaiveDateTime, Form)> {
    let (date, clock) = match text.find(['T', ' ']) {
        None => (text, None),
        Some(at) => {
            (text.get(..at)?, Some((if text.contains('T') { 'T' } else { ' ' }, text.get(at + 1..)?)))
        }
    };
    let separator = date.chars().find(|c| !c.is_ascii_digit()).filter(|c| "-/.".contains(*c))?;
    let parts = date.split(separator).collect::<Vec<_>>();
    let &[first, month, last] = parts.as_slice() else { return None };
    let day_first = separator == '.' && first.len() <= 2;
    let (year, day) = if day_first { (last, first) } else { (first, last) };
    if year.len() != 4 || month.len() > 2 || day.len() > 2 {
        return None;
    }
    let (m, d) = (number(month)?, number(day)?);
    let padded = padding(m, month).or(padding(d, day));
    let day = NaiveDate::from_ymd_opt(i32::try_from(number(year)?).ok()?, m, d)?;
    let (time, clock) = match clock {
        None => (NaiveTime::MIN, None),
        Some((joiner, text)) => parse_clock(joiner, text).map(|(time, clock)| (time, Some(clock)))?,
    };
    Some((day.and_time(time), Form::Calendar(Calendar { day_first, separator, padded, clock })))
}

fn parse_clock(joiner: char, text: &str) -> Option<(NaiveTime, Clock)> {
    let (text, utc) = match (text.strip_suffix('Z'), text.strip_suffix("+00:00")) {
        (Some(rest), _) => (rest, "Z"),
        (None, Some(rest)) => (rest, "+00:00"),
        (None, None) => (text, ""),
    };
    let mut parts = text.split(':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let seconds = parts.next();
    let (second, fraction) = match seconds.unwrap_or("00").split_once('.') {
        None => (seconds.unwrap_or("00"), ""),
        Some((second, fraction)) if (1..=9).contains(&fraction.len()) => (second, fraction),
        Some(_) => return None,
    };
    if parts.next().is_some() || !(1..=2).contains(&hour.len()) || minute.len() != 2 || second.len() != 2 {
        return None;
    }
    let nanoseconds = if fraction.is_empty() { 0 } else { number(&format!("{fraction:0<9}"))? };
    let h = number(hour)?;
    let time = NaiveTime::from_hms_nano_opt(h, number(minute)?, number(second)?, nanoseconds)?;
    let padded = padding(h, hour);
    Some((time, Clock { joiner, padded, seconds: seconds.is_some(), fraction_digits: fraction.len(), utc }))
}

/// Digits only: `u32::from_str` alone would also take a plus sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Whether a number below ten was written with a leading zero; larger ones do not tell.
fn padding(value: u32, text: &str) -> Option<bool> {
    (value < 10).then_some(text.len() == 2)
}

/// The date column of a series, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dates {
    column: String,
    form: DateForm,
    values: Vec<NaiveDateTime>,
}

impl Dates {
    /// Dates in ascending order under the name of their column.
    ///
    /// # Errors
    /// [`DataError::DuplicateDate`] or [`DataError::DatesDescend`], with the position as the line.
    pub fn new(column: &str, form: DateForm, values: Vec<NaiveDateTime>) -> Result<Self, DataError> {
        for (line, pair) in values.windows(2).enumerate() {
            if let &[previous, date] = pair {
                let at = || super::Place { file: column.to_owned(), line: line + 2 };
                ascending(previous, date, at)?;
            }
        }
        Ok(Self::from_ascending(column.to_owned(), form, values))
    }

    /// As [`Dates::new`], for dates whose order was checked row by row.
    pub(super) fn from_ascending(column: String, form: DateForm, values: Vec<NaiveDateTime>) -> Self {
        Self { column, form, values }
    }

    /// Name of the date column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// One date per row.
    pub fn values(&self) -> &[NaiveDateTime] {
        &self.values
    }

    /// The step of the dates.
    pub fn frequency(&self) -> Frequency {
        Frequency::detect(&self.values)
    }

    /// The usual step of the dates, and the gaps in them.
    pub fn spacing(&self) -> Spacing {
        Spacing::of(&self.values)
    }

    /// Writes a date in the form of the input.
    pub fn format(&self, date: NaiveDateTime) -> String {
        self.form.format(date)
    }

    /// The `steps` dates that follow the last one.
    ///
    /// # Errors
    /// [`DataError::NoFrequency`] for uneven dates, [`DataError::PastCalendar`] past the calendar's end.
    pub fn future(&self, steps: usize) -> Result<Vec<NaiveDateTime>, DataError> {
        match self.values.last() {
            None => Err(DataError::NoFrequency { why: "there are none".to_owned() }),
            Some(&last) => self.frequency().future(last, steps),
        }
    }

    /// The dates from row `start` on.
    pub(super) fn tail(&self, start: usize) -> Self {
        let values = self.values.get(start..).unwrap_or_default().to_vec();
        Self { column: self.column.clone(), form: self.form, values }
    }
}

/// Checks that `date` follows `previous`.
pub(super) fn ascending(
    previous: NaiveDateTime,
    date: NaiveDateTime,
    at: impl FnOnce() -> super::Place,
) -> Result<(), DataError> {
    match date.cmp(&previous) {
        std::cmp::Ordering::Greater => Ok(()),
        std::cmp::Ordering::Equal => Err(DataError::DuplicateDate { at: at(), date }),
        std::cmp::Ordering::Less => Err(DataError::DatesDescend { at: at(), previous, date }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(column: &str, texts: &[&str]) {
        let mut parser = DateParser::new(column);
        let dates: Vec<_> = texts.iter().map(|t| parser.parse(t).expect(t)).collect();
        let form = parser.form().expect("parsed");
        let written: Vec<_> = dates.iter().map(|&d| form.format(d)).collect();
        assert_eq!(written, texts);
    }

    #[test]
    fn every_form_is_written_as_it_was_read() {
        for text in [
            "2016-07-01 00:00:00",
            "2016-07-01T00:00:00",
            "2016-07-01T23:59:59.250Z",
            "2016-07-01 00:00:00+00:00",
            "2016-07-01 00:00",
            "2016-07-01",
            "2016/7/1 0:00",
            "01.07.2016 00:00",
            "1.7.2016",
            "2016.07.01",
        ] {
            round_trip("date", &[text]);
        }
        round_trip("Timestamp", &["1467331200", "1467334800"]);
        // The first row does not tell whether one-digit parts are padded; a later one does.
        round_trip("date", &["2016/12/31 23:00", "2017/1/1 0:00"]);
    }

    #[test]
    fn the_finest_row_decides_the_form() {
        let mut parser = DateParser::new("ds");
        let midnight = parser.parse("2016-07-01").expect("date");
        parser.parse("2016-07-01 01:00:00").expect("date and time");
        assert_eq!(parser.form().expect("parsed").format(midnight), "2016-07-01 00:00:00");
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "7",
            "1467331200",
            "2016-13-01",
            "2016-02-30",
            "16-07-01",
            "7/1/2016",
            "01-07-2016",
            "2016-07-01 24:00",
            "2016-07-01 0:0",
            "2016-07-01 00:00:00.",
            "2016-07-01 00:00:00.1234567890",
            "2016-07-01Z",
            "2016-+7-01",
            "2016-07-01 ",
            "2016--01",
            "2016-07-01 ::",
            "2016-07-01 00:00:00+02:00",
            "ä016-07-01",
            "2016-07-01 \u{fc}:00",
        ] {
            assert_eq!(DateParser::new("date").parse(text), None, "{text}");
        }
        // Milliseconds.
        assert_eq!(DateParser::new("timestamp").parse("1467331200000"), None);
        assert_eq!(DateParser::new("timestamp").parse("9223372036854775807"), None);
    }

    #[test]
    fn one_column_has_one_form() {
        let mut parser = DateParser::new("timestamp");
        assert!(parser.parse("2016-07-01").is_some());
        assert_eq!(parser.parse("2016/07/02"), None);
        assert_eq!(parser.parse("02.07.2016"), None);
        assert_eq!(parser.parse("1467331200"), None);
        assert!(parser.parse("2016-07-02").is_some());
    }

    #[test]
    fn unordered_dates_are_refused() {
        let mut parser = DateParser::new("date");
        let day = parser.parse("2016-07-01").expect("date");
        let form = parser.form().expect("parsed");
        let text = Dates::new("date", form, vec![day, day]).expect_err("twice").to_string();
        assert_eq!(text, "date:2: date 2016-07-01 00:00:00 is there twice; keep one row per date");
    }
}
