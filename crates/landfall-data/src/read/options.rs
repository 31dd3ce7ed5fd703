//! What to read of a file.

use crate::dates::purpose::Purpose;
use crate::read::limit::Most;
use crate::series::fill::Fill;
use crate::series::roles::indicator;

/// What to read of a file. Whatever is `None` is found in the file; what was found stands in
/// [`Found`](crate::series::found::Found), and reading again with it as options reads an extended file alike.
///
/// ```
/// use landfall_data::{ReadOptions, parse};
/// let options = ReadOptions {
///     columns: Some(vec!["load".to_owned()]),
///     date_column: Some(vec!["day".to_owned()]),
///     date_format: Some("%d.%m.%Y".to_owned()),
///     ..ReadOptions::default()
/// };
/// let text = "day,load,note\n01.02.2024,1,a\n02.02.2024,2,b\n03.02.2024,3,c\n";
/// assert_eq!(parse(text.as_bytes(), "load.csv", &options)?.values(), [[1.0, 2.0, 3.0]]);
/// # Ok::<(), landfall_data::DataError>(())
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
    /// use landfall_data::ReadOptions;
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
