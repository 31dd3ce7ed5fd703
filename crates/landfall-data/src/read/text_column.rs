//! The cells of a text file, column by column, in little more memory than their text.

use std::collections::BTreeMap;

/// The rows of a text file.
pub(crate) struct Texts {
    /// The line of each row.
    pub(crate) lines: Vec<usize>,
    pub(crate) columns: Vec<TextColumn>,
}

/// The cells of a column behind each other, without the blanks around them, and a byte for the width of each.
#[derive(Default)]
pub(crate) struct TextColumn {
    text: String,
    widths: Vec<u8>,
    /// Widths that are too large for a byte, by row.
    long: BTreeMap<usize, usize>,
    /// Where the first cell of every block begins.
    begins: Vec<usize>,
}

/// Cells whose widths are summed to find one at most.
const BLOCK: usize = 64;

/// Stands for a width in [`TextColumn::long`].
const LONG: u8 = u8::MAX;

impl Texts {
    pub(crate) fn new(columns: usize) -> Self {
        Self { lines: Vec::new(), columns: (0..columns).map(|_| TextColumn::default()).collect() }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn push<'a>(&mut self, line: usize, cells: impl Iterator<Item = &'a str>) {
        self.lines.push(line);
        self.columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell.trim()));
    }
}

impl TextColumn {
    fn push(&mut self, cell: &str) {
        let row = self.widths.len();
        if row.is_multiple_of(BLOCK) {
            self.begins.push(self.text.len());
        }
        self.text.push_str(cell);
        match u8::try_from(cell.len()) {
            Ok(width) if width < LONG => self.widths.push(width),
            Ok(_) | Err(_) => {
                self.widths.push(LONG);
                self.long.insert(row, cell.len());
            }
        }
    }

    fn width(&self, row: usize) -> usize {
        match self.widths.get(row) {
            Some(&LONG) => self.long.get(&row).copied().unwrap_or_default(),
            Some(&width) => width.into(),
            None => 0,
        }
    }

    /// The cell of a row; empty where there is none.
    pub(crate) fn cell(&self, row: usize) -> &str {
        let block = row / BLOCK;
        let Some(begin) = self.begins.get(block) else { return "" };
        let start = begin + (block * BLOCK..row).map(|row| self.width(row)).sum::<usize>();
        self.text.get(start..start + self.width(row)).unwrap_or_default()
    }

    /// All cells in order.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &str> + Clone {
        let mut end = 0;
        (0..self.widths.len()).map(move |row| {
            let start = end;
            end += self.width(row);
            self.text.get(start..end).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_row_and_in_order() {
        let mut texts = Texts::new(2);
        let widths = [0, 1, 7, 254, 255, 256, 1000];
        let cell = |row: usize| {
            "é".repeat(widths[row % widths.len()] / 2) + &"x".repeat(widths[row % widths.len()] % 2)
        };
        for row in 0..300 {
            texts.push(row + 2, [format!(" {} ", cell(row)).as_str(), "1"].into_iter());
        }
        let [column, ones] = texts.columns.as_slice() else { panic!("two columns") };
        for row in 0..300 {
            assert_eq!(column.cell(row), cell(row), "row {row}");
        }
        assert!(column.cells().eq((0..300).map(cell).collect::<Vec<_>>()));
        assert_eq!((column.cell(300), ones.cell(299), texts.lines[299]), ("", "1", 301));
    }
}
