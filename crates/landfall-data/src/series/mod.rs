//! A multivariate series in memory: named columns of equal length, with or without dates.

pub(crate) mod covariates;
pub(crate) mod fill;
pub(crate) mod found;
pub(crate) mod names;
pub(crate) mod panel;
pub(crate) mod roles;
pub(crate) mod season;
pub(crate) mod summary;

use crate::dates::Dates;
use crate::dates::purpose::Purpose;
use crate::error::DataError;
use crate::error::series::SeriesError;
use std::collections::HashMap;

/// Named columns of finite values, one row per time step.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    source: String,
    name: String,
    columns: Vec<String>,
    values: Vec<Vec<f64>>,
    dates: Option<Dates>,
    /// Of each column the rows whose values were interpolated; empty where none was.
    interpolated: Vec<Vec<usize>>,
}

impl Series {
    /// A series of `values`, one `Vec` per column; `source` names it in messages.
    ///
    /// ```
    /// use landfall_data::Series;
    /// let series = Series::new("sensor", vec!["level".to_owned()], vec![vec![1.0, 2.0, 3.0]], None)?;
    /// assert_eq!((series.rows(), series.channels()), (3, 1));
    /// # Ok::<(), landfall_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// No column or no row, two columns of one name, columns or dates of different length, a value that
    /// is not finite.
    pub fn new(
        source: impl Into<String>,
        columns: Vec<String>,
        values: Vec<Vec<f64>>,
        dates: Option<Dates>,
    ) -> Result<Self, DataError> {
        let file = source.into();
        let Some(rows) = values.first().map(Vec::len) else {
            return Err(DataError::Series(SeriesError::NoNumericColumn { file, why: String::new() }));
        };
        if rows == 0 {
            return Err(DataError::Series(SeriesError::HeaderOnly { file }));
        }
        if columns.len() != values.len() {
            return Err(DataError::Series(SeriesError::NameCount {
                file,
                names: columns.len(),
                columns: values.len(),
            }));
        }
        if let Some(name) = first_duplicate(&columns) {
            return Err(DataError::Series(SeriesError::DuplicateColumn { file, name: name.to_owned() }));
        }
        let dated = dates.iter().map(|d| (d.column(), d.values().len()));
        let lengths = columns.iter().map(String::as_str).zip(values.iter().map(Vec::len)).chain(dated);
        for (column, found) in lengths {
            if found != rows {
                let column = column.to_owned();
                return Err(DataError::Series(SeriesError::ColumnLength {
                    file,
                    column,
                    found,
                    expected: rows,
                }));
            }
        }
        for (column, values) in columns.iter().zip(&values) {
            if let Some(row) = values.iter().position(|v| !v.is_finite()) {
                return Err(DataError::Series(SeriesError::NotFinite {
                    file,
                    column: column.clone(),
                    row: row + 1,
                }));
            }
        }
        Ok(Self { name: file.clone(), source: file, columns, values, dates, interpolated: Vec::new() })
    }

    /// The same series, of which these rows of each column were interpolated: their values know of later ones.
    pub(crate) fn with_interpolated(self, interpolated: Vec<Vec<usize>>) -> Self {
        Self { interpolated, ..self }
    }

    /// The same series under another name than its source.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// What tells it from other series; its source, unless [`Series::named`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same series with the columns of these names, in this order.
    ///
    /// # Errors
    /// [`SeriesError::UnknownColumn`], [`SeriesError::RequestedTwice`], [`SeriesError::NoNumericColumn`] for none.
    pub fn with_columns(mut self, names: &[String]) -> Result<Self, DataError> {
        if let Some(name) = first_duplicate(names) {
            return Err(DataError::Series(SeriesError::RequestedTwice {
                file: self.source,
                name: name.to_owned(),
            }));
        }
        let at: HashMap<&String, usize> = self.columns.iter().zip(0..).collect();
        let place = |name: &String| {
            at.get(name).copied().ok_or_else(|| {
                let (file, known) = (self.source.clone(), self.columns.clone());
                DataError::Series(SeriesError::UnknownColumn { file, name: name.clone(), known })
            })
        };
        let places = names.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let values = places.iter().filter_map(|&at| self.values.get_mut(at).map(std::mem::take)).collect();
        let interpolated = places.iter().map(|&at| self.interpolated.get(at).cloned().unwrap_or_default());
        let interpolated = interpolated.collect();
        let made = Self::new(self.source, names.to_vec(), values, self.dates)?;
        Ok(made.named(self.name).with_interpolated(interpolated))
    }

    /// The same series with these columns behind its own.
    pub(crate) fn extended(self, names: Vec<String>, more: Vec<Vec<f64>>) -> Result<Self, DataError> {
        let mut interpolated = self.interpolated;
        if !interpolated.is_empty() {
            interpolated.resize(self.columns.len() + more.len(), Vec::new());
        }
        let columns = self.columns.into_iter().chain(names).collect();
        let values = self.values.into_iter().chain(more).collect();
        let one = Self::new(self.source, columns, values, self.dates)?.named(self.name);
        Ok(Self { interpolated, ..one })
    }

    /// Number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.values.first().map_or(0, Vec::len)
    }

    /// Number of columns, at least 1.
    pub fn channels(&self) -> usize {
        self.columns.len()
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Index of the column of this name.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The values, one `Vec` per column.
    pub fn values(&self) -> &[Vec<f64>] {
        &self.values
    }

    /// The dates, if the series has any.
    pub fn dates(&self) -> Option<&Dates> {
        self.dates.as_ref()
    }

    /// Where the series comes from: the path of its file, or what generated it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What a row is called: its date, or without dates its number from 0.
    pub fn label(&self, row: usize) -> String {
        let date = self.dates.as_ref().and_then(|dates| Some(dates.format(*dates.values().get(row)?)));
        date.unwrap_or_else(|| row.to_string())
    }

    /// The rows of a column whose values were missing and are interpolated here.
    pub fn interpolated(&self, column: usize) -> &[usize] {
        self.interpolated.get(column).map_or(&[], Vec::as_slice)
    }

    /// The first `rows` rows as they were known at the last of them: values that were interpolated between the last known
    /// one and a later one repeat the last known one.
    ///
    /// # Errors
    /// [`SeriesError::TooFewRows`] when the series is shorter, [`SeriesError::HeaderOnly`] for 0 rows,
    /// [`SeriesError::ColumnMissing`] for a column without a value by then.
    pub fn known_at(&self, rows: usize) -> Result<Self, DataError> {
        if rows > self.rows() {
            let file = self.source.clone();
            return Err(DataError::Series(SeriesError::TooFewRows { file, rows: self.rows(), needed: rows }));
        }
        let mut values: Vec<Vec<f64>> =
            self.values.iter().map(|v| v.get(..rows).unwrap_or_default().to_vec()).collect();
        let mut interpolated = Vec::with_capacity(self.interpolated.len());
        for ((column, values), filled) in self.columns.iter().zip(&mut values).zip(&self.interpolated) {
            let filled: Vec<usize> = filled.iter().copied().take_while(|row| *row < rows).collect();
            // Rows of the column that end with an interpolated one, back to the last known one.
            let after = filled.iter().rev().zip((0..rows).rev()).take_while(|(row, end)| *row == end).count();
            if let Some(known) = rows.checked_sub(after).filter(|_| after > 0) {
                let last = known.checked_sub(1).and_then(|row| values.get(row).copied());
                let Some(last) = last else {
                    return Err(DataError::Series(SeriesError::ColumnMissing {
                        file: self.source.clone(),
                        column: column.clone(),
                        advice: Purpose::Run.empty_column(),
                    }));
                };
                values.iter_mut().skip(known).for_each(|value| *value = last);
            }
            interpolated.push(filled);
        }
        let dates = self.dates.as_ref().map(|dates| dates.first(rows));
        let made = Self::new(self.source.clone(), self.columns.clone(), values, dates)?;
        Ok(made.named(self.name.clone()).with_interpolated(interpolated))
    }

    /// The same series, whose dates go on by this step, if it is known.
    pub fn with_step(&self, step: Option<crate::dates::frequency::Frequency>) -> Self {
        let dates = self.dates.as_ref().zip(step).map(|(dates, step)| dates.with_step(step));
        Self { dates: dates.or_else(|| self.dates.clone()), ..self.clone() }
    }

    /// The last `rows` rows: what a forecast of the future starts from.
    ///
    /// # Errors
    /// [`SeriesError::TooFewRows`] when the series is shorter, [`SeriesError::HeaderOnly`] for 0 rows.
    pub fn last_rows(&self, rows: usize) -> Result<Self, DataError> {
        let Some(start) = self.rows().checked_sub(rows) else {
            let file = self.source.clone();
            return Err(DataError::Series(SeriesError::TooFewRows { file, rows: self.rows(), needed: rows }));
        };
        let values = self.values.iter().map(|v| v.get(start..).unwrap_or_default().to_vec()).collect();
        let dates = self.dates.as_ref().map(|dates| dates.tail(start));
        Ok(Self::new(self.source.clone(), self.columns.clone(), values, dates)?.named(self.name.clone()))
    }
}

/// The first name that is there a second time.
pub(crate) fn first_duplicate(names: &[String]) -> Option<&str> {
    let mut seen = std::collections::HashSet::new();
    names.iter().map(String::as_str).find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dates::form::DateForm;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&n| n.to_owned()).collect()
    }

    fn refused(columns: &[&str], values: Vec<Vec<f64>>) -> String {
        Series::new("s", names(columns), values, None).expect_err("must be refused").to_string()
    }

    #[test]
    fn what_is_no_series_is_refused() {
        assert_eq!(refused(&[], vec![]), "s: no numeric column; a series needs at least one beside the date");
        assert_eq!(
            refused(&["a"], vec![vec![]]),
            "s: a header line and no rows; add rows of numbers below it"
        );
        assert_eq!(
            refused(&["a", "b"], vec![vec![1.0], vec![]]),
            "s: column `b` has 0 values and the series 1 rows; make them equal"
        );
        assert_eq!(
            refused(&["a", "a"], vec![vec![1.0], vec![1.0]]),
            "s: column `a` is there twice; give each column its own name"
        );
        assert_eq!(
            refused(&["a"], vec![vec![1.0, f64::NAN]]),
            "s: column `a`, row 2: the value is not finite; replace it"
        );
        assert_eq!(
            refused(&["a"], vec![vec![1.0], vec![2.0]]),
            "s: 1 names for 2 columns; give one name per column"
        );
    }

    #[test]
    fn rows_are_known_without_what_came_later() {
        let text = "day,a,b\n2016-07-01,1,5\n2016-07-02,,6\n2016-07-03,,7\n2016-07-04,4,8\n2016-07-05,5,\n2016-07-06,6,9\n";
        let series = crate::read::parse(text.as_bytes(), "s", &crate::read::options::ReadOptions::default())
            .expect("a series");
        assert_eq!(series.values(), [vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![5.0, 6.0, 7.0, 8.0, 8.5, 9.0]]);
        let known = |rows| series.known_at(rows).expect("shorter");
        assert_eq!(known(3).values(), [vec![1.0, 1.0, 1.0], vec![5.0, 6.0, 7.0]]);
        assert_eq!(known(4).values(), [vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0, 8.0]]);
        assert_eq!(known(5).values()[1], [5.0, 6.0, 7.0, 8.0, 8.0]);
        // Of columns in another order too, and of what was known twice.
        let turned = series.clone().with_columns(&names(&["b", "a"])).expect("both");
        assert_eq!(
            turned.known_at(5).expect("shorter").known_at(2).expect("shorter").values()[1],
            [1.0, 1.0]
        );
        assert_eq!(known(3).label(2), "2016-07-03");
        assert!(series.known_at(7).is_err() && series.known_at(0).is_err());
    }

    #[test]
    fn the_last_rows_are_a_series() {
        let form = DateForm::new("%Y-%m-%d").expect("a pattern");
        let days = ["2016-07-01", "2016-07-02", "2016-07-03"].map(|day| form.read(day).expect(day).local);
        let dates = Dates::new("date", form, days.to_vec()).expect("ascending");
        let values = vec![vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]];
        let series = Series::new("s", names(&["a", "b"]), values, Some(dates)).expect("a series");
        let last = series.last_rows(2).expect("shorter");
        assert_eq!(last.values(), [vec![2.0, 3.0], vec![5.0, 6.0]]);
        assert_eq!(last.dates().map(Dates::values), Some(&days[1..]));
        assert_eq!((last.rows(), last.channels(), last.column_index("b")), (2, 2, Some(1)));
        let error = series.last_rows(4).expect_err("longer").to_string();
        assert_eq!(error, "s: 3 rows where 4 are needed; give a longer series");
    }
}
