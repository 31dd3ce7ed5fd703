//! Columns of numbers that a program hands over, as a series and what reading it changed: what holds of a file's rows holds of these.

use crate::cells::cell::{Cell, Float};
use crate::error::DataError;
use crate::error::series::SeriesError;
use crate::read::frame::Frame;
use crate::read::options::ReadOptions;
use crate::read::typed::{Column, Value, Values};
use crate::series::panel::Panel;

/// Columns of equal length, with or without dates.
///
/// ```
/// use landfall_data::{ReadOptions, Records};
/// let records = Records {
///     source: "request".to_owned(),
///     dates: Some(("day".to_owned(), ["2024-01-02", "2024-01-01", "2024-01-03"].map(str::to_owned).to_vec())),
///     columns: vec![("load".to_owned(), vec![Some(2.0), Some(1.0), None])],
///     ..Records::default()
/// };
/// let panel = records.panel(&ReadOptions { fill: Some("previous".parse()?), ..ReadOptions::default() })?;
/// assert_eq!(panel.series()[0].values()[0], [1.0, 2.0, 2.0]); // in the order of the dates, the missing value filled
/// assert_eq!(panel.notices().last().map(String::as_str), Some("1 missing value filled by the rule previous: load (1)"));
/// # Ok::<(), landfall_data::DataError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// What messages call it.
    pub source: String,
    /// The name of the column of dates, and the dates as they are written.
    pub dates: Option<(String, Vec<String>)>,
    /// Names and values of the columns of numbers; `None` is a missing value.
    pub columns: Vec<(String, Vec<Option<f64>>)>,
    /// Names and cells of the columns whose values are names ([`ReadOptions::categorical`]).
    pub texts: Vec<(String, Vec<String>)>,
}

impl Records {
    /// The one series that they are: rows in the order of their dates, gaps filled, as of a file. `options` say which columns are read
    /// and how dates are written; its separator and date column have no meaning here.
    ///
    /// # Errors
    /// Columns of different length; whatever keeps a table from being one series.
    pub fn panel(self, options: &ReadOptions) -> Result<Panel, DataError> {
        let Self { source: file, dates, columns, texts } = self;
        let date_column = dates.as_ref().map(|(name, _)| vec![name.clone()]);
        let date_format = options.date_format.clone().filter(|_| dates.is_some());
        let options = ReadOptions { date_column, date_format, series_id: None, ..options.clone() };
        let of_texts = texts.iter().map(|(name, cells)| (name, cells.len()));
        let dated = dates.iter().map(|(name, dates)| (name, dates.len()));
        // The first one says how many rows there are: the dates, where they are given.
        let mut lengths =
            dated.chain(columns.iter().map(|(name, values)| (name, values.len()))).chain(of_texts);
        let rows = lengths.clone().next().map_or(0, |(_, rows)| rows);
        if let Some((column, found)) = lengths.find(|(_, found)| *found != rows) {
            return Err(DataError::Series(SeriesError::ColumnLength {
                file,
                column: column.clone(),
                found,
                expected: rows,
            }));
        }
        let numbers = columns.iter().map(|(name, _)| name);
        let names: Vec<String> = dates
            .iter()
            .map(|(name, _)| name)
            .chain(numbers)
            .chain(texts.iter().map(|(name, _)| name))
            .cloned()
            .collect();
        if let Some(name) = crate::series::first_duplicate(&names) {
            return Err(DataError::Series(SeriesError::DuplicateColumn { file, name: name.to_owned() }));
        }
        let number = |value: Option<f64>| Value::Typed(value.map_or(Cell::Empty, |x| Cell::Float(Float(x))));
        let numbers = columns.into_iter().map(|(_, values)| values.into_iter().map(number).collect());
        let text = |text: String| Value::Text(text.into());
        let dates = dates.into_iter().map(|(_, dates)| dates.into_iter().map(text).collect());
        let texts = texts.into_iter().map(|(_, cells)| cells.into_iter().map(text).collect());
        let cells = dates.chain(numbers).chain(texts).map(|cells| Column::of(Values::Cells(cells)));
        let sheet = Frame::of_columns(names.into_iter().zip(cells).collect()).sheet(&file);
        let panel = Panel::of(sheet, &options)?;
        match panel.series().len() {
            1 => Ok(panel),
            count => Err(DataError::Series(SeriesError::ManySeries { file, count })),
        }
    }
}
