//! Dates of a series, and the written forms that files use for them.

mod form;

pub use form::DateForm;
pub(crate) use form::Forms;

use chrono::NaiveDateTime;

use super::frequency::Spacing;
use super::{DataError, Frequency};

/// The date column of a series, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dates {
    column: String,
    form: DateForm,
    values: Vec<NaiveDateTime>,
}

impl Dates {
    /// Reads dates in ascending order, all in one form, which is found from them.
    ///
    /// # Errors
    /// [`DataError::BadDate`] for a cell that is no date in the form of the others; as [`Dates::new`].
    pub fn parse(column: &str, cells: &[&str]) -> Result<Self, DataError> {
        let mut forms = Forms::new(true);
        let at = |line: usize| super::Place { file: column.to_owned(), line: line + 1 };
        for (line, cell) in cells.iter().enumerate() {
            if !forms.push(cell) {
                let (column, text) = (column.to_owned(), (*cell).to_owned());
                return Err(DataError::BadDate { at: at(line), column, text, form: String::new() });
            }
        }
        let Some(form) = forms.finish().into_iter().next() else {
            return Err(DataError::NoFrequency { why: "there are none".to_owned() });
        };
        let values = cells.iter().filter_map(|cell| form.parse(cell)).collect();
        Self::new(column, form, values)
    }

    /// Dates in ascending order under the name of their column.
    ///
    /// # Errors
    /// [`DataError::DuplicateDate`] or [`DataError::DatesDescend`], with the position as the line.
    pub fn new(column: &str, form: DateForm, values: Vec<NaiveDateTime>) -> Result<Self, DataError> {
        for (line, pair) in values.windows(2).enumerate() {
            let &[previous, date] = pair else { continue };
            let at = super::Place { file: column.to_owned(), line: line + 2 };
            match date.cmp(&previous) {
                std::cmp::Ordering::Greater => {}
                std::cmp::Ordering::Equal => {
                    return Err(DataError::DuplicateDate { at, first: line + 1, date });
                }
                std::cmp::Ordering::Less => return Err(DataError::DatesDescend { at, previous, date }),
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

    /// The way they are written.
    pub fn form(&self) -> &DateForm {
        &self.form
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
        Self { column: self.column.clone(), form: self.form.clone(), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cells: &[&str]) -> Dates {
        Dates::parse("date", cells).unwrap_or_else(|e| panic!("{cells:?}: {e}"))
    }

    /// Every cell is written back as it was read.
    fn round_trip(cells: &[&str]) {
        let dates = read(cells);
        let written: Vec<String> = dates.values().iter().map(|d| dates.format(*d)).collect();
        assert_eq!(written, cells, "{}", dates.form().name());
    }

    #[test]
    fn every_form_is_written_as_it_was_read() {
        for cells in [
            &["2016-07-01 00:00:00"][..],
            &["2016-07-01T00:00:00"],
            &["2016-07-01T23:59:59.250Z"],
            &["2016-07-01 00:00:00+00:00"],
            &["2016-07-01 00:00:00.123456"],
            &["2016-07-01 00:00"],
            &["2016-07-01"],
            &["2016/7/1 0:00"],
            &["01.07.2016 00:00"],
            &["13.7.2016"],
            &["2016.07.01"],
            &["1949-01", "1949-02"],
            &["1991 Jul", "1991 Aug"],
            &["Jul 1991"],
            &["Jan-1995"],
            &["Jan-95"],
            &["Jan 1 2000", "Feb 1 2000"],
            &["1 Jan 2000"],
            &["January 1, 2000"],
            &["Jan-1-1995"],
            &["02/13/2020"],
            &["13/02/2020"],
            &["2/13/2020 5:00 PM"],
            &["Mon, 03 Feb 2020"],
            &["2020Q1", "2020Q4"],
            &["1970 Q1", "1970 Q2"],
            &["2020-Q3"],
            &["Q1 2020"],
            &["2020-W05"],
            &["19580329"],
            &["20200131235959"],
            &["1700", "1701"],
            &["1467331200", "1467334800"],
            &["1467331200000", "1467331200001"],
            &["20200131 13:00"],
            // The first row does not tell whether one-digit parts are padded; a later one does.
            &["2016/12/31 23:00", "2017/1/1 0:00"],
        ] {
            round_trip(cells);
        }
    }

    #[test]
    fn dates_are_the_days_that_they_say() {
        for (cell, day) in [
            ("2/13/2020 5:00 PM", "2020-02-13 17:00:00"),
            ("1970 Q3", "1970-07-01 00:00:00"),
            ("2020-W05", "2020-01-27 00:00:00"),
            ("2020-02-13T04:05:06+02:00", "2020-02-13 02:05:06"),
            ("2020-02-13 04:05+0530", "2020-02-12 22:35:00"),
            ("Jan-95", "1995-01-01 00:00:00"),
            ("1467331200", "2016-07-01 00:00:00"),
            ("19580329", "1958-03-29 00:00:00"),
            ("2020-02-13 07", "2020-02-13 07:00:00"),
        ] {
            assert_eq!(read(&[cell]).values()[0].to_string(), day, "{cell}");
        }
    }

    #[test]
    fn the_finest_row_decides_the_form() {
        let dates = read(&["2016-07-01", "2016-07-01 01:00:00"]);
        assert_eq!(dates.format(dates.values()[0]), "2016-07-01 00:00:00");
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "7",
            "2016-13-01",
            "2016-02-30",
            "2016-07-01 24:00",
            "2016-07-01 00:00:00.",
            "2016-+7-01",
            "2016--01",
            "2016-07-01 ::",
            "\u{e4}016-07-01",
            "2016-07-01 \u{fc}:00",
            "20161301",
            "drizzle",
            "2020Q5",
            "2020-W54",
            "9223372036854775807",
        ] {
            assert!(Dates::parse("date", &[text]).is_err(), "{text}");
        }
    }

    #[test]
    fn one_column_has_one_form() {
        for other in ["2016/07/02", "02.07.2016", "1467331200", "July 2 2016"] {
            let error = Dates::parse("date", &["2016-07-01", other]).expect_err("two forms").to_string();
            assert!(
                error.starts_with(&format!("date:2: column `date`: date `{other}` cannot be read")),
                "{error}"
            );
        }
        let error = Dates::parse("date", &["2016-07-01", "2016-07-01"]).expect_err("twice").to_string();
        assert!(error.starts_with("date:2: date 2016-07-01 00:00:00 is there already in line 1"), "{error}");
    }
}
