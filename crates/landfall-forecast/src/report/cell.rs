//! Names as cells of a CSV.

use std::borrow::Cow;

/// A name as a CSV has it. Spreadsheets compute what begins with `=`, `+`, `-` or `@`, also behind a tab or a carriage return: such a
/// name stands behind an apostrophe, which they take as the mark of a text, unless it is a number.
///
/// ```
/// use landfall_forecast::report::name_cell;
/// assert_eq!(name_cell("=HYPERLINK(\"http://example.org\")"), "'=HYPERLINK(\"http://example.org\")");
/// assert_eq!((name_cell("-5"), name_cell("north")), ("-5".into(), "north".into()));
/// ```
#[must_use]
pub fn name_cell(name: &str) -> Cow<'_, str> {
    let computed = name.starts_with(['=', '+', '-', '@', '\t', '\r']) && name.parse::<f64>().is_err();
    if computed { Cow::Owned(format!("'{name}")) } else { Cow::Borrowed(name) }
}
