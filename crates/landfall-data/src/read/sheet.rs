//! A table of cells as it stands in a file, before anything is known of its columns.

use crate::cells::cell::Cell;
use crate::error::DataError;
use crate::error::read::ReadError;
use crate::message::place::{Place, Unit};
use crate::message::{one_line, shortened};
use crate::read::text_column::{TextColumn, Texts};
use crate::read::typed::Column;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The rows of a table.
pub(crate) enum Rows {
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
pub(crate) struct Whole<'a> {
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
pub(crate) struct Sheet {
    /// Path, for messages.
    pub(crate) file: String,
    /// Names of the columns, as the file has them.
    pub(crate) names: Vec<String>,
    /// The rows below the header.
    pub(crate) rows: Rows,
    /// What separates fields, in a text file.
    pub(crate) separator: Option<char>,
    /// What a person has to know of how the file was read.
    pub(crate) notes: Vec<String>,
}

impl Sheet {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        match &self.rows {
            Rows::Text(texts) => texts.lines.len(),
            Rows::Typed { rows, .. } => *rows,
        }
    }

    /// Whether its columns are typed, so that nothing has to be guessed of numbers.
    pub(crate) fn is_typed(&self) -> bool {
        matches!(self.rows, Rows::Typed { .. })
    }

    /// A line of the file; of a file without lines, the row, from 1.
    pub(crate) fn place(&self, row: usize) -> Place {
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
    pub(crate) fn cell(&self, row: usize, field: usize) -> Cell<'_> {
        match &self.rows {
            Rows::Text(texts) => texts.columns.get(field).map_or(Cell::Empty, |c| Cell::Text(c.cell(row))),
            Rows::Typed { columns, .. } => columns.get(field).map_or(Cell::Empty, |c| c.cell(row)),
        }
    }

    /// All cells of a row.
    pub(crate) fn whole(&self, row: usize) -> Whole<'_> {
        Whole { sheet: self, row }
    }

    /// The name of a column that is used: the first one may have none in the file.
    pub(crate) fn column_name(&self, field: usize) -> String {
        match self.names.get(field) {
            Some(name) if !name.is_empty() => name.clone(),
            Some(_) | None => format!("Unnamed: {field}"),
        }
    }

    /// The cells of a column.
    pub(crate) fn cells(&self, field: usize) -> impl Iterator<Item = Cell<'_>> + Clone {
        let (texts, typed) = match &self.rows {
            Rows::Text(texts) => (texts.columns.get(field), None),
            Rows::Typed { columns, .. } => (None, columns.get(field)),
        };
        let texts = texts.into_iter().flat_map(TextColumn::cells).map(Cell::Text);
        let typed = typed.into_iter().flat_map(|column| (0..column.rows()).map(|row| column.cell(row)));
        texts.chain(typed)
    }

    /// Gives up the text of a column that has been read, which may be most of what a large file takes.
    pub(crate) fn forget(&mut self, field: usize) {
        if let Rows::Text(texts) = &mut self.rows
            && let Some(column) = texts.columns.get_mut(field)
        {
            *column = TextColumn::default();
        }
    }

    /// Gives every column a name of its own: unnamed ones `Unnamed: 3` (counted from 0, as pandas does), but for the
    /// first, and of equal names the later ones a number.
    pub(crate) fn name_columns(&mut self) {
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

pub(crate) fn check_fields(expected: usize, found: usize, at: impl Fn() -> Place) -> Result<(), DataError> {
    if expected == found {
        Ok(())
    } else {
        Err(DataError::Read(ReadError::Ragged { at: at(), found, expected }))
    }
}
