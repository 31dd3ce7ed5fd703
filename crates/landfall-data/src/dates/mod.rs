//! Dates of a series: how they are written, which columns hold them, and how they go on.

pub(crate) mod calendar;
pub(crate) mod clock;
pub(crate) mod digits;
pub(crate) mod form;
pub(crate) mod frequency;
pub(crate) mod infer;
pub(crate) mod purpose;

use crate::dates::form::DateForm;
use crate::dates::frequency::Frequency;
use crate::dates::frequency::Spacing;
use crate::dates::purpose::Purpose;
use crate::error::DataError;
use crate::error::series::SeriesError;
use chrono::NaiveDateTime;

/// The date column of a series, ascending.
#[derive(Debug, Clone, PartialEq)]
pub struct Dates {
    column: String,
    form: DateForm,
    values: Vec<NaiveDateTime>,
    offset: i32,
    /// The step, where rows before the first one here show it.
    step: Option<Frequency>,
}

/// Rows that show the step of dates: a week of business days has no weekend in it.
const SHOWN: usize = 32;

impl Dates {
    /// Dates in ascending order under the name of their column.
    ///
    /// # Errors
    /// [`SeriesError::DuplicateDate`] or [`SeriesError::DatesDescend`], with the position as the line.
    pub fn new(column: &str, form: DateForm, values: Vec<NaiveDateTime>) -> Result<Self, DataError> {
        for (line, pair) in values.windows(2).enumerate() {
            let &[previous, date] = pair else { continue };
            let at = |line: usize| crate::message::place::Place::line(column, line);
            match date.cmp(&previous) {
                std::cmp::Ordering::Greater => {}
                std::cmp::Ordering::Equal => {
                    return Err(DataError::Series(SeriesError::DuplicateDate {
                        at: at(line + 2),
                        before: line + 1,
                        date,
                        advice: Purpose::Run.repeated_date(),
                    }));
                }
                std::cmp::Ordering::Less => {
                    return Err(DataError::Series(SeriesError::DatesDescend {
                        at: at(line + 2),
                        previous,
                        date,
                    }));
                }
            }
        }
        Ok(Self::from_ascending(column.to_owned(), form, values, 0))
    }

    /// As [`Dates::new`], for dates in order on a clock that is `offset` seconds ahead of UTC.
    pub(crate) fn from_ascending(
        column: String,
        form: DateForm,
        values: Vec<NaiveDateTime>,
        offset: i32,
    ) -> Self {
        Self { column, form, values, offset, step: None }
    }

    /// Name of the date column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// How the dates are written.
    pub fn form(&self) -> &DateForm {
        &self.form
    }

    /// One date per row.
    pub fn values(&self) -> &[NaiveDateTime] {
        &self.values
    }

    /// The step of the dates.
    pub fn frequency(&self) -> Frequency {
        self.step.unwrap_or_else(|| Frequency::detect(&self.values))
    }

    /// The usual step of the dates, and the gaps in them.
    pub fn spacing(&self) -> Spacing {
        Spacing::of(&self.values)
    }

    /// Writes a date in the form of the input.
    pub fn format(&self, date: NaiveDateTime) -> String {
        self.form.write(date, self.offset).unwrap_or_else(|| date.to_string())
    }

    /// The `steps` dates that follow the last one.
    ///
    /// # Errors
    /// [`SeriesError::NoFrequency`] for uneven dates, [`SeriesError::PastCalendar`] past the calendar's end.
    pub fn future(&self, steps: usize) -> Result<Vec<NaiveDateTime>, DataError> {
        match self.values.last() {
            None => Err(DataError::Series(SeriesError::NoFrequency { why: "there are none".to_owned() })),
            Some(&last) => self.frequency().future(last, steps),
        }
    }

    /// Reads a date in the form of these dates, on their clock; else as `2020-01-31` or `2020-01-31 18:00:00`.
    pub fn read(&self, text: &str) -> Option<NaiveDateTime> {
        let text = text.trim();
        let own = self.form.read(text).map(|stamp| match stamp.offset {
            Some(offset) => stamp.local + chrono::TimeDelta::seconds(i64::from(self.offset - offset)),
            None => stamp.local,
        });
        let other = || {
            ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"]
                .into_iter()
                .find_map(|pattern| Some(DateForm::new(pattern)?.read(&text.replacen('T', " ", 1))?.local))
        };
        own.or_else(other)
    }

    /// The same dates, of which these go on by a step that others show.
    pub(crate) fn with_step(&self, step: Frequency) -> Self {
        Self { step: Some(step), ..self.clone() }
    }

    /// The dates of the first `rows` rows.
    pub(crate) fn first(&self, rows: usize) -> Self {
        let values = self.values.get(..rows).unwrap_or(&self.values).to_vec();
        Self { values, ..self.clone() }
    }

    /// The dates from row `start` on. Where these are few, their step is that of the rows before too.
    pub(crate) fn tail(&self, start: usize) -> Self {
        let rows = |start: usize| self.values.get(start..).unwrap_or_default();
        let shown = start.min(self.values.len().saturating_sub(SHOWN));
        let step = self.step.or_else(|| {
            let step = (shown < start).then(|| Frequency::detect(rows(shown)))?;
            step.future(*self.values.last()?, 1).is_ok().then_some(step)
        });
        Self { values: rows(start).to_vec(), step, ..self.clone() }
    }
}

/// Whether a text is a date by itself.
pub(crate) fn is_date(text: &str) -> bool {
    infer::patterns(text)
        .iter()
        .filter_map(|pattern| DateForm::new(pattern))
        .any(|form| form.read(text).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::NaiveDate;

    #[test]
    fn few_rows_go_on_by_the_step_of_those_before() {
        let day =
            |day| NaiveDate::from_ymd_opt(2024, 1, day).and_then(|d| d.and_hms_opt(0, 0, 0)).expect("a date");
        // Two weeks from Monday to Friday.
        let days = [1, 2, 3, 4, 5, 8, 9, 10, 11, 12].map(day).to_vec();
        let dates = Dates::new("ds", DateForm::new("%Y-%m-%d").expect("a form"), days).expect("ascending");
        for start in 0..10 {
            assert_eq!(dates.tail(start).future(1).expect("a Monday"), [day(15)], "from row {start}");
        }
        // After a gap the step is that of the rows behind it.
        let days = [1, 2, 3, 7, 8, 9].map(day).to_vec();
        let dates = Dates::new("ds", DateForm::new("%Y-%m-%d").expect("a form"), days).expect("ascending");
        assert_eq!(dates.tail(3).future(1).expect("a day"), [day(10)]);
    }

    #[test]
    fn unordered_dates_are_refused() {
        let form = DateForm::new("%Y-%m-%d").expect("a pattern");
        let day = form.read("2016-07-01").expect("a date").local;
        let text = Dates::new("date", form, vec![day, day]).expect_err("twice").to_string();
        assert_eq!(
            text,
            "date:2: date 2016-07-01 00:00:00 stands in line 1 too, with other values; keep one row per date"
        );
    }
}
