//! What reading a file found in it.

/// What reading a file found in it. The same as [`ReadOptions`](crate::ReadOptions) reads the file, or a longer one, alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What separates the fields of a row, in a text file.
    pub separator: Option<char>,
    /// The decimal mark of the numbers, where they have one or groups of thousands.
    pub decimal: Option<char>,
    /// What groups their thousands.
    pub thousands: Option<char>,
    /// Whether the separator of the fields decided on the decimal mark.
    pub(crate) guessed: bool,
    /// The columns that hold the date.
    pub date_column: Vec<String>,
    /// How dates are written, in the notation of `strftime`.
    pub date_format: Option<String>,
    /// The columns that name the series.
    pub series_id: Vec<String>,
    /// What was filled, changed or left out, a sentence each.
    pub notes: Vec<String>,
    /// Columns that hold text and were left out.
    pub texts: Vec<String>,
}

impl Found {
    /// What two files have in common; the notes of both.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.notes.append(&mut other.notes);
        self.texts.append(&mut other.texts);
        self.separator = self.separator.filter(|_| self.separator == other.separator);
        self.decimal = self.decimal.or(other.decimal);
        self.thousands = self.thousands.or(other.thousands);
        if self.date_column != other.date_column || self.date_format != other.date_format {
            self.date_column.clear();
            self.date_format = None;
        }
        if self.series_id != other.series_id {
            self.series_id.clear();
        }
    }
}
