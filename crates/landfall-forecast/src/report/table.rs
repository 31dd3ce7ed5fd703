//! Tables of text.

use crate::data::printable;

/// A table for a terminal: the first column to the left, the others to the right. Cells are shown without control characters.
///
/// ```
/// let rows = [["series", "MSE"], ["north", "0.25"]].map(|row| row.map(str::to_owned).to_vec());
/// assert_eq!(landfall_forecast::report::table(&rows), "series   MSE\nnorth   0.25");
/// ```
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let shown = |row: &Vec<String>| row.iter().map(|cell| printable(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let cell = |(c, text): (usize, &String)| match c {
        0 => format!("{text:<w$}", w = widths[0]),
        _ => format!("{text:>w$}", w = widths[c]),
    };
    let row =
        |r: &Vec<String>| r.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned();
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}
