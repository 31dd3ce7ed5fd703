//! A table of cells as it stands in a file, before anything is known of its columns.

use ::csv::StringRecord;

use super::Fill;
use super::error::{DataError, Place};

/// What to read of a file. Whatever is `None` is found in the file; what was found stands in
/// [`Found`](super::Found), and reading again with it as options reads an extended file alike.
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
}

/// A row and the line it stands on.
pub(super) struct Row {
    pub(super) line: usize,
    pub(super) cells: StringRecord,
}

impl Row {
    /// The cell of a field, without the blanks around it.
    pub(super) fn cell(&self, field: usize) -> &str {
        self.cells.get(field).unwrap_or_default().trim()
    }
}

/// A table: every row has as many cells as there are names.
pub(super) struct Sheet {
    /// Path, for messages.
    pub(super) file: String,
    /// Names of the columns, as the file has them.
    pub(super) names: Vec<String>,
    /// The rows below the header.
    pub(super) rows: Vec<Row>,
    /// What separates fields, in a text file.
    pub(super) separator: Option<char>,
    /// Whether cells come from typed columns, so that nothing has to be guessed of numbers.
    pub(super) typed: bool,
    /// What a person has to know of how the file was read.
    pub(super) notes: Vec<String>,
}

impl Sheet {
    /// A line of the file.
    pub(super) fn place(&self, row: usize) -> Place {
        Place { file: self.file.clone(), line: self.rows.get(row).map_or(row + 1, |row| row.line) }
    }

    /// The name of a column that is used: the first one may have none in the file.
    pub(super) fn column_name(&self, field: usize) -> String {
        match self.names.get(field) {
            Some(name) if !name.is_empty() => name.clone(),
            Some(_) | None => format!("Unnamed: {field}"),
        }
    }

    /// The cells of a column.
    pub(super) fn cells(&self, field: usize) -> impl Iterator<Item = &str> + Clone {
        self.rows.iter().map(move |row| row.cell(field))
    }

    /// Gives every column a name of its own: unnamed ones `Unnamed: 3` (counted from 0, as pandas does), but for the
    /// first, and of equal names the later ones a number.
    pub(super) fn name_columns(&mut self) {
        let mut renamed = Vec::new();
        for field in 0..self.names.len() {
            let (before, rest) = self.names.split_at_mut(field);
            let Some(name) = rest.first_mut() else { continue };
            let was = name.clone();
            if name.is_empty() && field > 0 {
                *name = format!("Unnamed: {field}");
            }
            let base = name.clone();
            let mut number = 0;
            while before.contains(name) {
                number += 1;
                *name = format!("{base}.{number}");
            }
            if number > 0 {
                renamed.push(format!("`{was}` (column {}) is `{name}`", field + 1));
            }
        }
        if !renamed.is_empty() {
            self.notes.push(format!("columns of one name renamed: {}", renamed.join(", ")));
        }
    }
}

pub(super) fn check_fields(expected: usize, found: usize, at: impl Fn() -> Place) -> Result<(), DataError> {
    if expected == found { Ok(()) } else { Err(DataError::Ragged { at: at(), found, expected }) }
}
