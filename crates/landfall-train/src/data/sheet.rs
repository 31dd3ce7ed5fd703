//! A table of cells as it stands in a file, before anything is known of its columns.

use super::Fill;
use super::cell::Cell;
use super::covariates::indicator;
use super::error::DataError;
use super::frame::Column;
use super::limit::Most;
use super::message::{one_line, shortened};
use super::place::{Place, Unit};
use super::purpose::Purpose;
use super::text_column::{TextColumn, Texts};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What to read of a file. Whatever is `None` is found in the file; what was found stands in
/// [`Found`](super::Found), and reading again with it as options reads an extended file alike.
///
/// ```
/// use landfall_train::data::{ReadOptions, csv};
/// let options = ReadOptions {
///     columns: Some(vec!["load".to_owned()]),
///     date_column: Some(vec!["day".to_owned()]),
///     date_format: Some("%d.%m.%Y".to_owned()),
///     ..ReadOptions::default()
/// };
/// let text = "day,load,note\n01.02.2024,1,a\n02.02.2024,2,b\n03.02.2024,3,c\n";
/// assert_eq!(csv::parse(text.as_bytes(), "load.csv", &options)?.values(), [[1.0, 2.0, 3.0]]);
/// # Ok::<(), landfall_train::data::DataError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The columns to read, in this order; all columns of numbers when `None`. Cells of the others are not looked at.
    pub columns: Option<Vec<String>>,
    /// What to put in place of missing values; `None` interpolates between the values on both sides.
    pub fill: Option<Fill>,
    /// Whether rows are inserted where the dates skip some; without it, where they are at most a third of all rows.
    pub fill_gaps: bool,
    /// The columns that say which series a row belongs to.
    pub series_id: Option<Vec<String>>,
    /// The columns that hold the date.
    pub date_column: Option<Vec<String>>,
    /// How dates are written, in the notation of `strftime`.
    pub date_format: Option<String>,
    /// What separates the fields of a row; a blank stands for runs of blanks.
    pub separator: Option<char>,
    /// The decimal mark of numbers that are text, `.` or `,`.
    pub decimal: Option<char>,
    /// What groups their thousands: `.`, `,`, a blank or an apostrophe. Point and comma say that the other is the decimal mark.
    pub thousands: Option<char>,
    /// Columns whose values are names: each name becomes a column of its own.
    pub categorical: Vec<String>,
    /// Columns that may have one value in each series, and are not left out for it.
    pub fixed: Vec<String>,
    /// Columns that settings name as something else than a date or a series.
    pub named: Vec<String>,
    /// Whether the columns to be forecast are named, so that the others are inputs.
    pub targets: bool,
    /// What the data is read for, by which messages advise.
    pub purpose: Purpose,
    /// The most that a table may have, of which memory is taken before its rows are read; all that it has when `None`.
    pub most: Option<Most>,
}

impl ReadOptions {
    /// The columns of a file that [`ReadOptions::columns`] are made of: those of the names of a categorical column are that
    /// column, once. None where all columns of numbers are read.
    ///
    /// ```
    /// use landfall_train::data::ReadOptions;
    /// let columns = Some(["sales", "event=fair", "event=none"].map(str::to_owned).to_vec());
    /// let options = ReadOptions { columns, categorical: vec!["event".to_owned()], ..ReadOptions::default() };
    /// assert_eq!(options.file_columns(), Some(vec!["sales".to_owned(), "event".to_owned()]));
    /// ```
    #[must_use]
    pub fn file_columns(&self) -> Option<Vec<String>> {
        let mut names: Vec<String> = self.columns.clone()?;
        for name in &mut names {
            let of = self.categorical.iter().find(|column| name.starts_with(&indicator(column, "")));
            if let Some(column) = of {
                name.clone_from(column);
            }
        }
        names.dedup();
        Some(names)
    }
}

/// The rows of a table.
pub(super) enum Rows {
    /// Of a text file.
    Text(Texts),
    /// Of typed columns.
    Typed {
        columns: Vec<Column>,
        rows: usize,
        /// The row of a person's data frame that each row was, counted from 0.
        origins: Option<Arc<[u32]>>,
    },
}

/// All cells of a row, to be told from other rows.
#[derive(Clone, Copy)]
pub(super) struct Whole<'a> {
    sheet: &'a Sheet,
    row: usize,
}

impl<'a> Whole<'a> {
    fn cells(self) -> impl Iterator<Item = Cell<'a>> {
        (0..self.sheet.names.len()).map(move |field| self.sheet.cell(self.row, field))
    }
}

impl PartialEq for Whole<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cells().eq(other.cells())
    }
}

impl Eq for Whole<'_> {}

impl Hash for Whole<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cells().for_each(|cell| cell.hash(state));
    }
}

/// A table: every row has as many cells as there are names.
pub(super) struct Sheet {
    /// Path, for messages.
    pub(super) file: String,
    /// Names of the columns, as the file has them.
    pub(super) names: Vec<String>,
    /// The rows below the header.
    pub(super) rows: Rows,
    /// What separates fields, in a text file.
    pub(super) separator: Option<char>,
    /// What a person has to know of how the file was read.
    pub(super) notes: Vec<String>,
}

impl Sheet {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        match &self.rows {
            Rows::Text(texts) => texts.lines.len(),
            Rows::Typed { rows, .. } => *rows,
        }
    }

    /// Whether its columns are typed, so that nothing has to be guessed of numbers.
    pub(super) fn is_typed(&self) -> bool {
        matches!(self.rows, Rows::Typed { .. })
    }

    /// A line of the file; of a file without lines, the row, from 1.
    pub(super) fn place(&self, row: usize) -> Place {
        match &self.rows {
            Rows::Text(texts) => Place::line(&self.file, texts.lines.get(row).copied().unwrap_or(row + 1)),
            Rows::Typed { origins, .. } => {
                let (file, unit) = (self.file.clone(), Unit::Row);
                match origins.as_ref().and_then(|origins| origins.get(row)) {
                    Some(&row) => Place { file, line: row as usize, unit: Unit::FrameRow },
                    None => Place { file, line: row + 1, unit },
                }
            }
        }
    }

    /// A cell; text without the blanks around it.
    pub(super) fn cell(&self, row: usize, field: usize) -> Cell<'_> {
        match &self.rows {
            Rows::Text(texts) => texts.columns.get(field).map_or(Cell::Empty, |c| Cell::Text(c.cell(row))),
            Rows::Typed { columns, .. } => columns.get(field).map_or(Cell::Empty, |c| c.cell(row)),
        }
    }

    /// All cells of a row.
    pub(super) fn whole(&self, row: usize) -> Whole<'_> {
        Whole { sheet: self, row }
    }

    /// The name of a column that is used: the first one may have none in the file.
    pub(super) fn column_name(&self, field: usize) -> String {
        match self.names.get(field) {
            Some(name) if !name.is_empty() => name.clone(),
            Some(_) | None => format!("Unnamed: {field}"),
        }
    }

    /// The cells of a column.
    pub(super) fn cells(&self, field: usize) -> impl Iterator<Item = Cell<'_>> + Clone {
        let (texts, typed) = match &self.rows {
            Rows::Text(texts) => (texts.columns.get(field), None),
            Rows::Typed { columns, .. } => (None, columns.get(field)),
        };
        let texts = texts.into_iter().flat_map(TextColumn::cells).map(Cell::Text);
        let typed = typed.into_iter().flat_map(|column| (0..column.rows()).map(|row| column.cell(row)));
        texts.chain(typed)
    }

    /// Gives up the text of a column that has been read, which may be most of what a large file takes.
    pub(super) fn forget(&mut self, field: usize) {
        if let Rows::Text(texts) = &mut self.rows
            && let Some(column) = texts.columns.get_mut(field)
        {
            *column = TextColumn::default();
        }
    }

    /// Gives every column a name of its own: unnamed ones `Unnamed: 3` (counted from 0, as pandas does), but for the
    /// first, and of equal names the later ones a number.
    pub(super) fn name_columns(&mut self) {
        let mut renamed = Vec::new();
        // The names before, and the last number that each was given: its smaller ones are taken.
        let (mut before, mut numbers) = (HashSet::new(), HashMap::<String, usize>::new());
        for (field, name) in self.names.iter_mut().enumerate() {
            let was = name.clone();
            if name.is_empty() && field > 0 {
                *name = format!("Unnamed: {field}");
            }
            if before.contains(name) {
                let base = name.clone();
                let number = numbers.entry(base.clone()).or_insert(0);
                while before.contains(name) {
                    *number += 1;
                    *name = format!("{base}.{number}");
                }
                renamed.push(format!("`{}` (column {}) is `{}`", one_line(&was), field + 1, one_line(name)));
            }
            before.insert(name.clone());
        }
        if !renamed.is_empty() {
            self.notes.push(format!("columns of one name renamed: {}", shortened(&renamed)));
        }
    }
}

pub(super) fn check_fields(expected: usize, found: usize, at: impl Fn() -> Place) -> Result<(), DataError> {
    if expected == found { Ok(()) } else { Err(DataError::Ragged { at: at(), found, expected }) }
}
