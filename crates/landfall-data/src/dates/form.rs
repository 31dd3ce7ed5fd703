//! One way of writing dates: read and written back alike.

use crate::cells::cell::Cell;
use crate::dates::digits::digits;
use crate::dates::infer::UNIX;
use chrono::format::{Item, Numeric, Parsed, StrftimeItems, parse};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Weekday};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// The way dates are written, so that forecasts continue in the form of the input: a pattern of `strftime`, or `unix-s`,
/// `unix-ms`, `unix-us`, `unix-ns` for a number of seconds (and so on) since 1970. Digits alone may be written with a fraction of
/// zeros, which the pattern has then too: `%Y%m%d.0`; those since 1970 with any fraction of as many digits.
#[derive(Debug, Clone, PartialEq)]
pub struct DateForm {
    pattern: String,
    /// The items of the pattern, then of its shorter beginnings that a cell may have instead: some exporters leave out
    /// the time at midnight, and seconds or their fraction where they are 0. Empty for numbers.
    /// Shared, since the dates of every series have their form.
    levels: Arc<[Vec<Item<'static>>]>,
    /// Parts of a second, for numbers since 1970.
    parts: i64,
    /// Digits after the point of digits alone, which a cell may have or not; none for other patterns.
    decimals: Option<usize>,
    /// Two-digit years are in the hundred years from this one on.
    first_year: i32,
}

/// Two-digit years of no file: 70 to 99 are of the last century.
const FIRST_YEAR: i32 = 1970;

/// A date as a cell has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Date and time of the clock on the wall.
    pub(crate) local: NaiveDateTime,
    /// How far that clock is ahead of UTC, in seconds, where the cell says so.
    pub(crate) offset: Option<i32>,
}

/// How many digits of a second timestamps are printed with, as in `2016-07-01 13:00:00.250`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fraction {
    /// Midnight, which some forms leave out.
    Day,
    None,
    Milli,
    Micro,
    Nano,
}

impl Fraction {
    /// That of the finest of these.
    pub(crate) fn of(times: &[NaiveDateTime]) -> Self {
        let digits = |time: &NaiveDateTime| match chrono::Timelike::nanosecond(time) {
            0 if time.time() == NaiveTime::MIN => Self::Day,
            0 => Self::None,
            n if n % 1_000_000 == 0 => Self::Milli,
            n if n % 1000 == 0 => Self::Micro,
            _ => Self::Nano,
        };
        times.iter().map(digits).max().unwrap_or(Self::Day)
    }

    /// The pattern of such timestamps.
    pub(crate) const fn pattern(self) -> &'static str {
        match self {
            Self::Day | Self::None => "%Y-%m-%d %H:%M:%S",
            Self::Milli => "%Y-%m-%d %H:%M:%S%.3f",
            Self::Micro => "%Y-%m-%d %H:%M:%S%.6f",
            Self::Nano => "%Y-%m-%d %H:%M:%S%.9f",
        }
    }

    /// A timestamp whose parts all differ.
    fn example(self) -> Option<NaiveDateTime> {
        let nanoseconds = match self {
            Self::Day => return NaiveDate::from_ymd_opt(2020, 12, 31)?.and_hms_opt(0, 0, 0),
            Self::None => 0,
            Self::Milli => 678_000_000,
            Self::Micro => 678_901_000,
            Self::Nano => 678_901_234,
        };
        NaiveDate::from_ymd_opt(2020, 12, 31)?.and_hms_nano_opt(13, 14, 15, nanoseconds)
    }
}

impl DateForm {
    /// The form of a pattern; `None` for one that is no pattern or leaves out the year.
    pub fn new(pattern: &str) -> Option<Self> {
        let (base, decimals) = match pattern.rsplit_once('.') {
            Some((base, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => {
                (base, zeros.len())
            }
            Some(_) | None => (pattern, 0),
        };
        let whole = pattern.to_owned();
        if let Some(at) = UNIX.iter().position(|(_, name)| *name == base) {
            let parts = 1000_i64.pow(u32::try_from(at).ok()?);
            let (levels, decimals) = (Arc::default(), Some(decimals));
            return Some(Self { pattern: whole, levels, parts, decimals, first_year: FIRST_YEAR });
        }
        let in_digits = base.split('%').skip(1).all(|code| code.len() == 1 && "YmdHMSjGVyu".contains(code));
        let decimals = (base.starts_with('%') && in_digits).then_some(decimals);
        let pattern = if decimals.is_some() { base } else { pattern };
        let mut levels = Vec::new();
        // A fraction is read whatever number of digits it has, and written with those of the pattern.
        let lenient =
            ["%.3f", "%.6f", "%.9f"].iter().fold(pattern.to_owned(), |text, f| text.replace(f, "%.f"));
        for text in beginnings(&lenient) {
            levels.push(StrftimeItems::new(text).parse_to_owned().ok()?);
        }
        let levels = levels.into();
        let form = Self { pattern: whole, levels, parts: 0, decimals, first_year: FIRST_YEAR };
        // A pattern without a year reads nothing back.
        let probe = NaiveDate::from_ymd_opt(2020, 7, 6)?.and_time(NaiveTime::MIN);
        let written = form.write(probe, 0)?;
        form.read(&written).is_some().then_some(form)
    }

    /// The pattern.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// A date in this form, to be shown: the last day of 2024 at 13:00.
    pub fn example(&self) -> Option<String> {
        self.write(NaiveDate::from_ymd_opt(2024, 12, 31)?.and_hms_opt(13, 0, 0)?, 0)
    }

    /// The same form with months, days and (`hours`) hours below ten written with one digit.
    pub(crate) fn unpadded(&self, days: bool, hours: bool) -> Option<Self> {
        let mut pattern = self.pattern.clone();
        for (field, wanted) in [("m", days), ("d", days), ("H", hours), ("I", hours)] {
            if wanted {
                pattern = pattern.replace(&format!("%{field}"), &format!("%-{field}"));
            }
        }
        (pattern != self.pattern).then(|| Self::new(&pattern)).flatten()
    }

    /// Whether it writes timestamps of this fraction of a second so that nothing is lost.
    pub(crate) fn keeps(&self, fraction: Fraction) -> bool {
        let same = |time: NaiveDateTime| Some(self.read(&self.write(time, 0)?)?.local == time);
        fraction.example().and_then(same).unwrap_or(false)
    }

    /// The same form with digits after the point; itself where there is no number to have them.
    pub(crate) fn with_decimals(self, decimals: usize) -> Self {
        let number = self.decimals == Some(0) && decimals > 0;
        let pattern = || format!("{}.{}", self.pattern, "0".repeat(decimals));
        let form = if number { Self::new(&pattern()) } else { None };
        form.map_or(self.clone(), |form| Self { first_year: self.first_year, ..form })
    }

    /// The same form whose two-digit years are in the hundred years from this one on.
    pub(crate) fn since_year(self, first_year: i32) -> Self {
        Self { first_year, ..self }
    }

    /// Reads a cell of any type.
    pub(crate) fn read_cell(&self, cell: Cell<'_>) -> Option<Stamp> {
        match cell {
            Cell::Integer(n) if self.parts > 0 => self.since_1970(n, 0),
            Cell::Empty
            | Cell::Text(_)
            | Cell::Boolean(_)
            | Cell::Integer(_)
            | Cell::Float(_)
            | Cell::Decimal(_)
            | Cell::Time(_) => self.read(&cell.text()),
        }
    }

    /// Reads text.
    pub(crate) fn read(&self, text: &str) -> Option<Stamp> {
        if self.parts > 0 {
            return self.read_number(text);
        }
        self.parsed(text, |parsed| complete(parsed, self.first_year))
    }

    /// Whether its years may have two digits.
    pub(crate) fn has_short_year(&self) -> bool {
        self.levels.iter().flatten().any(|item| matches!(item, Item::Numeric(Numeric::YearMod100, _)))
    }

    /// The two-digit year of a text that has one.
    pub(crate) fn short_year(&self, cell: Cell<'_>) -> Option<i32> {
        self.parsed(&cell.text(), |p| p.year_mod_100().filter(|_| p.year().is_none()))
    }

    /// What the first level that reads a text makes of it.
    fn parsed<T>(&self, text: &str, make: impl Fn(&Parsed) -> Option<T>) -> Option<T> {
        // Some writers make floats of whole numbers.
        let whole = self
            .decimals
            .and_then(|_| digits(text))
            .filter(|(_, fraction)| fraction.bytes().all(|b| b == b'0'));
        let text = whole.as_ref().map_or(text, |(whole, _)| whole);
        self.levels.iter().find_map(|items| {
            let mut parsed = Parsed::new();
            parse(&mut parsed, text, items.iter()).ok()?;
            make(&parsed)
        })
    }

    fn read_number(&self, text: &str) -> Option<Stamp> {
        let Some((whole, fraction)) = digits(text) else {
            return self.since_1970(text.strip_suffix(".0").unwrap_or(text).parse().ok()?, 0);
        };
        let billionths: i64 = format!("{fraction:0<9.9}").parse().ok()?;
        let nanoseconds = billionths / self.parts;
        // A count of nanoseconds has no parts.
        let whole_count = billionths == 0 || self.parts < 1_000_000_000;
        if whole_count { self.since_1970(whole.parse().ok()?, nanoseconds) } else { None }
    }

    /// The moment of a number since 1970 and of nanoseconds after it.
    fn since_1970(&self, number: i64, after: i64) -> Option<Stamp> {
        let nanoseconds = number.rem_euclid(self.parts) * (1_000_000_000 / self.parts) + after;
        let date = DateTime::from_timestamp(number.div_euclid(self.parts), u32::try_from(nanoseconds).ok()?)?;
        // Milliseconds read as seconds land tens of thousands of years away.
        plausible(date.naive_utc()).map(|local| Stamp { local, offset: None })
    }

    /// Writes a date of a clock that is `offset` seconds ahead of UTC; `None` where the pattern cannot be written.
    pub(crate) fn write(&self, date: NaiveDateTime, offset: i32) -> Option<String> {
        if self.parts > 0 {
            let utc = date.and_utc();
            let nanoseconds = 1_000_000_000 / self.parts;
            let (within, after) = (
                i64::from(utc.timestamp_subsec_nanos()) / nanoseconds,
                i64::from(utc.timestamp_subsec_nanos()) % nanoseconds,
            );
            let whole = utc.timestamp().checked_mul(self.parts)? + within;
            let digits = nanoseconds.checked_ilog10()? as usize;
            let fraction = format!("{after:0digits$}");
            return Some(match self.decimals {
                None | Some(0) => whole.to_string(),
                Some(decimals) if digits == 0 => format!("{whole}.{}", "0".repeat(decimals)),
                Some(decimals) => format!("{whole}.{fraction:0<decimals$.decimals$}"),
            });
        }
        let utc = date.checked_sub_signed(TimeDelta::seconds(i64::from(offset)))?;
        let moment = DateTime::<FixedOffset>::from_naive_utc_and_offset(utc, FixedOffset::east_opt(offset)?);
        // The hours alone of an offset can be read by the library and not be written.
        let pattern = match self.pattern.contains("%#z") {
            true => Cow::Owned(self.pattern.replace("%#z", &format!("{:+03}", offset / 3600))),
            false => Cow::Borrowed(self.pattern.as_str()),
        };
        let mut text = String::new();
        write!(text, "{}", moment.format(&pattern)).ok()?;
        Some(text)
    }

    /// Whether dates say how far they are from UTC.
    pub(crate) fn has_offset(&self) -> bool {
        ["%z", "%:z", "%#z"].iter().any(|offset| self.pattern.contains(offset))
    }
}

/// A pattern and its shorter beginnings.
fn beginnings(pattern: &str) -> Vec<&str> {
    let cut = ["%.f", ":%S"].into_iter().filter_map(|part| {
        let at = pattern.find(part)?;
        // What follows the seconds, an offset say, belongs to the whole alone.
        pattern.get(..at)
    });
    let hour = ["%H", "%-H", "%I", "%-I"].iter().filter_map(|hour| pattern.find(hour)).min();
    let day = hour
        .and_then(|at| pattern.get(..at))
        .map(|date| date.trim_end_matches([' ', 'T', ',']))
        .filter(|d| !d.is_empty());
    std::iter::once(pattern).chain(cut).chain(day).collect()
}

/// The first moment of what was read: of a year, a quarter, a week, a month, a day.
fn complete(p: &Parsed, first_year: i32) -> Option<Stamp> {
    let two_digits = |y: i32| first_year + (y - first_year).rem_euclid(100);
    let year = p.year().or_else(|| p.year_mod_100().map(two_digits));
    let date = match (year, p.isoyear().zip(p.isoweek()), p.ordinal()) {
        (Some(year), _, Some(day)) => NaiveDate::from_yo_opt(year, day),
        (Some(year), _, None) => {
            let month = p.month().or(p.quarter().map(|q| 3 * q - 2)).unwrap_or(1);
            NaiveDate::from_ymd_opt(year, month, p.day().unwrap_or(1))
        }
        (None, Some((year, week)), _) => {
            NaiveDate::from_isoywd_opt(year, week, p.weekday().unwrap_or(Weekday::Mon))
        }
        (None, None, _) => match p.timestamp() {
            Some(seconds) => DateTime::from_timestamp(seconds, 0).map(|date| date.date_naive()),
            None => None,
        },
    }?;
    if p.weekday().is_some_and(|day| day != chrono::Datelike::weekday(&date)) {
        return None;
    }
    let hour = p.hour_div_12().unwrap_or(0) * 12 + p.hour_mod_12().unwrap_or(0);
    let time = match p.timestamp() {
        Some(seconds) => DateTime::from_timestamp(seconds, 0)?.time(),
        None => NaiveTime::from_hms_nano_opt(
            hour,
            p.minute().unwrap_or(0),
            p.second().unwrap_or(0),
            p.nanosecond().unwrap_or(0),
        )?,
    };
    plausible(date.and_time(time)).map(|local| Stamp { local, offset: p.offset() })
}

/// Years of four digits; `0000` and `9999` stand for nothing in most files, and numbers for no date.
pub(crate) fn plausible(date: NaiveDateTime) -> Option<NaiveDateTime> {
    (1000..3000).contains(&chrono::Datelike::year(&date)).then_some(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_writes_what_it_reads() {
        for (pattern, text) in [
            ("%Y-%m-%d %H:%M:%S%.6f", "2016-07-01 00:00:00.000250"),
            ("%d.%m.%Y %H:%M", "31.12.2016 23:59"),
            ("%-m/%-d/%Y %-I:%M %p", "1/2/2016 3:05 PM"),
            ("%YQ%q", "2016Q3"),
            ("%G-W%V", "2020-W53"),
            ("%B %d, %Y", "May 01, 2016"),
            ("%Y-%j", "2016-366"),
            ("%Y%m%d", "19580329"),
            ("%Y-%m-%d %H:%M:%S%#z", "2016-07-01 00:00:00-03"),
            ("%Y-%m-%dT%H:%M:%S%:z", "2016-07-01T00:00:00+05:30"),
            ("%s", "1467331200"),
            ("unix-s", "-86400"),
            ("unix-ms", "1467331200001"),
            ("unix-us", "-1467331200000001"),
            ("unix-ns", "1467331200000000001"),
            ("unix-s.0", "1616976024.0"),
            ("unix-s.000", "1616976024.250"),
            ("unix-ms.0", "1616976024250.0"),
            ("unix-us.0", "1616976024250001.0"),
            ("unix-ns.0", "1616976024250000001.0"),
            ("%Y%m%d.0", "20211201.0"),
            ("%Y%m%d%H.0", "2021120105.0"),
        ] {
            let form = DateForm::new(pattern).expect(pattern);
            let stamp = form.read(text).expect(text);
            assert_eq!(
                form.write(stamp.local, stamp.offset.unwrap_or(0)).as_deref(),
                Some(text),
                "{pattern}"
            );
        }
    }

    #[test]
    fn what_is_no_date_is_not_read() {
        let form = DateForm::new("%Y-%m-%d %H:%M:%S").expect("a pattern");
        for text in
            ["2016-13-01 00:00:00", "2016-02-30", "2016-07-01 24:00", "", "7", "0001-01-01", "2016-07-01x"]
        {
            assert_eq!(form.read(text), None, "{text}");
        }
        assert_eq!(
            form.read("2016-07-01").map(|s| s.local),
            form.read("2016-07-01 00:00:00").map(|s| s.local)
        );
        assert_eq!(DateForm::new("unix-s").expect("known").read("1467331200000"), None);
        for pattern in ["", "%", "%m-%d", "date", "%H:%M", "%!"] {
            assert_eq!(DateForm::new(pattern), None, "{pattern}");
        }
        let named = DateForm::new("%a %Y-%m-%d").expect("a pattern");
        assert_eq!((named.read("Sat 2016-07-01"), named.read("Fri 2016-07-01").is_some()), (None, true));
    }
}
