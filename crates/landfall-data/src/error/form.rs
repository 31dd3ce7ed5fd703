//! Numbers, dates and columns whose form is not known, or is another than that of a run.

use crate::message::place::Place;
use crate::message::setting::Setting;
use crate::message::{list, one_line};

/// A cell: its place, its column, what it says.
type Named = (Place, String, String);

/// What is not known of how a file writes numbers, dates and columns.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// A decimal mark or a separator of thousands that is none.
    #[error("{setting} `{text}`: give {}", if *.setting == Setting("decimal") { "`.` or `,`" } else { "`.`, `,`, a blank or an apostrophe" })]
    BadMark {
        /// The setting.
        setting: Setting,
        /// What was given.
        text: String,
    },
    /// One mark for two things.
    #[error(
        "{} {mark} and {} {mark}: one mark cannot be both; give the other one to either",
        Setting("decimal"),
        Setting("thousands")
    )]
    OneMark {
        /// The mark.
        mark: char,
    },
    /// Columns with decimal points beside columns with decimal commas.
    #[error(
        "{}: column `{}`: `{}` has a decimal point, and {}, column `{}`: `{}` a decimal comma; give {} . or , (columns \
         that are no numbers then are left out), or write all numbers alike",
        .point.0, one_line(&.point.1), one_line(&.point.2), .comma.0, one_line(&.comma.1), one_line(&.comma.2), Setting("decimal")
    )]
    TwoMarks {
        /// A number with a decimal point.
        point: Named,
        /// A number with a decimal comma.
        comma: Named,
    },
    /// Files of one panel with different decimal marks.
    #[error(
        "{file}: numbers have a decimal {mark}, unlike those of {other}; write the numbers of all files alike"
    )]
    OtherMark {
        /// The file that differs.
        file: String,
        /// Its mark.
        mark: &'static str,
        /// A file before it.
        other: String,
    },
    /// A number that may be two, in data of a run.
    #[error("{at}: column `{}`: `{}` may be {point} or {comma}; {}", one_line(.column), one_line(.text), doubt(*.own, point, comma))]
    Doubtful {
        /// Line of the cell.
        at: Place,
        /// Its column.
        column: String,
        /// What it says.
        text: String,
        /// The number with a decimal point.
        point: String,
        /// The number with a decimal comma.
        comma: String,
        /// The decimal mark of the run, if it is known.
        own: Option<&'static str>,
    },
    /// Two-digit years that span too much.
    #[error(
        "{file}: column `{}`: two-digit years from {first:02} on to {last:02} do not say their century; write years with four digits",
        one_line(.column)
    )]
    Century {
        /// Path of the file.
        file: String,
        /// The column of the dates.
        column: String,
        /// The first year.
        first: i32,
        /// The last one.
        last: i32,
    },
    /// Columns that are called a time and are read as no date.
    #[error("{file}: {what}; {advice}")]
    TimeColumns {
        /// Path of the file.
        file: String,
        /// The columns, and why they are no dates.
        what: String,
        /// What to do.
        advice: String,
    },
    /// Data of another frequency than that of a run.
    #[error("{file}: dates are {found}, and those of the run are {}; give data of the run's frequency", list(.expected))]
    Frequency {
        /// Name of the series.
        file: String,
        /// Its frequency.
        found: String,
        /// Those of the run.
        expected: Vec<String>,
    },
}

crate::message::debug_as_text!(FormError);

/// Why a number may be two, and what to do.
fn doubt(own: Option<&'static str>, point: &str, comma: &str) -> String {
    match own {
        Some(own) => {
            let mark = if own == "comma" { "," } else { "." };
            let [point, comma] = [point, comma].map(|number| number.replace('.', mark));
            format!(
                "the run's numbers have a decimal {own} and no separators of thousands, and no number here says what that mark \
                 is; write {point} or {comma}"
            )
        }
        None => "no number here or in the run's data says whether the decimal mark is a point or a comma; write numbers \
                 without separators of thousands, or put decimal = \".\" or decimal = \",\" into the run's config.toml"
            .to_owned(),
    }
}
