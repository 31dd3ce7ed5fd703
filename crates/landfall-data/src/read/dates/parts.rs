//! Dates that stand in several columns: what part of the date each is, and the date that they are together.

use crate::cells::cell::Cell;
use crate::read::dates::words::{TimeName, Word};
use crate::read::sheet::Sheet;

/// What a column is of a date that stands in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Year,
    Quarter,
    Month,
    Week,
    DayOfYear,
    Day,
    Hour,
    /// The hour that ends then, from 1 to 24.
    HourEnding,
    Minute,
    /// Half hours, from 1 to 48.
    HalfHour,
    /// A whole date, or a time of day.
    Text,
}

impl Part {
    /// The part that a column is by its name, and by its cells where it is called a period. `form` is the pattern of the whole date, where it is known.
    pub(crate) fn of(sheet: &Sheet, field: usize, form: Option<&str>) -> Self {
        let Some(name) = TimeName::of(sheet.names.get(field).map_or("", String::as_str)) else {
            return Self::Text;
        };
        let parts = [
            (&[Word::Month][..], Self::Month),
            (&[Word::Quarter], Self::Quarter),
            (&[Word::Week], Self::Week),
            (&[Word::DayOfYear], Self::DayOfYear),
            (&[Word::Day], Self::Day),
            (&[Word::Hour], Self::Hour),
            (&[Word::Hour, Word::Ending], Self::HourEnding),
            (&[Word::Minute], Self::Minute),
            (&[Word::HalfHour], Self::HalfHour),
            (&[Word::HalfHour, Word::Period], Self::HalfHour),
        ];
        match parts.iter().find(|(words, _)| name.is(words)) {
            _ if name.is_year() => Self::Year,
            Some((_, part)) => *part,
            None if name.is(&[Word::Period]) => {
                let by_number = || Self::by_largest(sheet, field, form);
                Self::by_letter(sheet, field).or_else(by_number).unwrap_or(Self::Text)
            }
            None => Self::Text,
        }
    }

    /// By the letter before the numbers: Q1, M01, W05.
    fn by_letter(sheet: &Sheet, field: usize) -> Option<Self> {
        let lettered = |letter: char| {
            let mut cells = sheet.cells(field).peekable();
            cells.peek().is_some()
                && cells.all(|cell| cell.as_text().is_some_and(|text| number_after(text, letter).is_some()))
        };
        let known = [('q', Self::Quarter), ('m', Self::Month), ('w', Self::Week)];
        known.into_iter().find(|(letter, _)| lettered(*letter)).map(|(_, part)| part)
    }

    /// By the largest number of a column, or by the pattern of the whole date.
    fn by_largest(sheet: &Sheet, field: usize, form: Option<&str>) -> Option<Self> {
        if let Some(form) = form {
            let codes = [("%q", Self::Quarter), ("%V", Self::Week), ("%m", Self::Month)];
            return codes.into_iter().find(|(code, _)| form.contains(code)).map(|(_, part)| part);
        }
        let largest = sheet.cells(field).filter_map(|cell| whole(cell).parse::<u32>().ok()).max()?;
        match largest {
            4 => Some(Self::Quarter),
            12 => Some(Self::Month),
            52 | 53 => Some(Self::Week),
            _ => None,
        }
    }
}

/// A whole number as it is written without the fraction that some writers give it.
fn whole(cell: Cell<'_>) -> String {
    let text = cell.text();
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The digits that follow a letter, or stand alone, without zeros before them.
fn number_after(text: &str, letter: char) -> Option<&str> {
    let mut rest = text.chars();
    let digits = match rest.next() {
        Some(c) if c.eq_ignore_ascii_case(&letter) => rest.as_str(),
        Some(_) | None => return None,
    };
    let sound = (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    sound.then(|| digits.trim_start_matches('0'))
}

/// The parts of a date as one text, as ISO 8601 writes it where they are numbers.
pub(crate) fn joined(sheet: &Sheet, parts: &[(usize, Part)], row: usize) -> String {
    let mut text = String::new();
    let minutes = parts.iter().any(|(_, part)| *part == Part::Minute);
    for &(field, part) in parts {
        let cell = whole(sheet.cell(row, field));
        let number = !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
        let after = |letter| if number { Some(cell.as_str()) } else { number_after(&cell, letter) };
        let count = |most: u32| cell.parse::<u32>().ok().filter(|n| (1..=most).contains(n)).map(|n| n - 1);
        let clean = match part {
            Part::Quarter => after('q').map(|q| format!("Q{}", q.trim_start_matches('0'))),
            Part::Week => after('w').map(|week| format!("-W{week:0>2}")),
            Part::Month if !text.contains(' ') => after('m').map(|month| format!("-{month:0>2}")),
            Part::Day if number && !text.contains(' ') => Some(format!("-{cell:0>2}")),
            Part::DayOfYear if number => Some(format!("-{cell:0>3}")),
            Part::Hour if number && minutes => Some(format!(" {cell:0>2}")),
            Part::Hour if number => Some(format!(" {cell:0>2}:00")),
            Part::Minute if number => Some(format!(":{cell:0>2}")),
            Part::HourEnding => hour_ending(&cell).map(|hour| format!(" {hour:0>2}:00")),
            Part::HalfHour => count(48).map(|half| format!(" {:0>2}:{:0>2}", half / 2, half % 2 * 30)),
            // A time of day in four digits.
            Part::Text if number && cell.len() == 4 && !text.is_empty() => {
                cell.split_at_checked(2).map(|(hour, minute)| format!(" {hour}:{minute}"))
            }
            Part::Year
            | Part::Month
            | Part::Day
            | Part::DayOfYear
            | Part::Hour
            | Part::Minute
            | Part::Text => None,
        };
        match clean {
            Some(clean) => text += &clean,
            None if text.is_empty() => text += &cell,
            None => text += &format!(" {cell}"),
        }
    }
    text
}

/// The hour that begins where this one of a day ends: `24`, `HE24`, `24:00`.
fn hour_ending(text: &str) -> Option<u32> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let hour = text.strip_suffix(":00").unwrap_or(text).parse::<u32>().ok()?;
    (1..=24).contains(&hour).then(|| hour - 1)
}
