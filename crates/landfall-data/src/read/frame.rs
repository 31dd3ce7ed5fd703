//! Tables in memory whose columns have types, such as data frames: nothing of them is guessed from text.

use crate::error::DataError;
use crate::error::series::SeriesError;
use crate::read::options::ReadOptions;
use crate::read::sheet::{Rows, Sheet};
use crate::read::typed::Column;
use crate::series::panel::Panel;
use std::sync::Arc;

/// Named columns of equal length. A copy shares the memory of the columns.
///
/// ```
/// use landfall_data::{Column, Frame, ReadOptions, TimeUnit};
/// let days: Vec<i64> = (0..3).map(|day| day * 86_400).collect();
/// let frame = Frame::new(vec![
///     ("day".to_owned(), Column::dates(days, TimeUnit::Second, false)),
///     ("load".to_owned(), Column::numbers(vec![1.0, f64::NAN, 3.0])),
/// ])?;
/// let panel = frame.panel("the frame", &ReadOptions::default())?;
/// assert_eq!(panel.series()[0].values(), [[1.0, 2.0, 3.0]]); // the missing value is interpolated
/// # Ok::<(), landfall_data::DataError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Frame {
    columns: Vec<(String, Column)>,
    rows: usize,
    /// The row of the person's frame that each row was, counted from 0.
    origins: Option<Arc<[u32]>>,
}

impl Frame {
    /// The frame of these columns.
    ///
    /// # Errors
    /// [`SeriesError::ColumnLength`], [`SeriesError::DuplicateColumn`].
    pub fn new(columns: Vec<(String, Column)>) -> Result<Self, DataError> {
        let file = || "the frame".to_owned();
        let expected = columns.first().map_or(0, |(_, column)| column.rows());
        if let Some((name, column)) = columns.iter().find(|(_, column)| column.rows() != expected) {
            let (column, found) = (name.clone(), column.rows());
            return Err(DataError::Series(SeriesError::ColumnLength {
                file: file(),
                column,
                found,
                expected,
            }));
        }
        let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        if let Some(name) = crate::series::first_duplicate(&names) {
            return Err(DataError::Series(SeriesError::DuplicateColumn {
                file: file(),
                name: name.to_owned(),
            }));
        }
        Ok(Self::of_columns(columns))
    }

    /// The frame of columns of equal length.
    pub(crate) fn of_columns(columns: Vec<(String, Column)>) -> Self {
        let rows = columns.first().map_or(0, |(_, column)| column.rows());
        Self { columns, rows, origins: None }
    }

    /// The same frame, each row of which was this one of a person's frame, counted from 0: messages name that one.
    #[must_use]
    pub fn with_origins(self, rows: Vec<u32>) -> Self {
        Self { origins: Some(rows.into()), ..self }
    }

    /// The columns and their names.
    #[must_use]
    pub fn columns(&self) -> &[(String, Column)] {
        &self.columns
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(other, _)| other == name).map(|(_, column)| column)
    }

    /// The series of the frame, as those of a file with the same cells; `source` is what messages call it. The only series of a
    /// frame that names none is called `data`.
    ///
    /// # Errors
    /// Whatever keeps a table from being series, with the row and the column where there is one; as [`Panel::new`].
    pub fn panel(&self, source: &str, options: &ReadOptions) -> Result<Panel, DataError> {
        let mut panel = Panel::of(self.sheet(source), options)?;
        panel.files = vec![source.to_owned()];
        if panel.found().series_id.is_empty() {
            panel.series = panel.series.into_iter().map(|series| series.named("data")).collect();
        }
        if options.columns.is_none() {
            panel.leave_out_constants(&[options.categorical.as_slice(), &options.fixed].concat())?;
        }
        Ok(panel)
    }

    /// The table that it is.
    pub(crate) fn sheet(&self, source: &str) -> Sheet {
        let (names, columns) = self.columns.iter().cloned().unzip();
        Sheet {
            file: source.to_owned(),
            names,
            rows: Rows::Typed { columns, rows: self.rows, origins: self.origins.clone() },
            separator: None,
            notes: Vec::new(),
        }
    }
}
