//! What data is read for, which decides what a message about it can advise.

use super::DateForm;

/// What data is read for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// A new run, or none: settings say how it is read.
    #[default]
    NewRun,
    /// A run that has settings of its own, and continues other data.
    Run,
    /// The data of a run, read again.
    Again,
    /// Rows to forecast of a run's columns known in advance.
    Future,
    /// A request to a server of a run.
    Request,
}

impl Purpose {
    /// For a cell that is no number.
    pub(super) const fn cell(self) -> &'static str {
        match self {
            Self::NewRun => "correct or clear the cell, or choose others with --columns",
            Self::Run | Self::Again | Self::Future | Self::Request => "correct or clear the cell",
        }
    }

    /// For a column without a value.
    pub(super) const fn empty_column(self) -> &'static str {
        match self {
            Self::NewRun => "leave it out or use --fill zero",
            Self::Run | Self::Again => "give it values or use --fill zero",
            Self::Future | Self::Request => "give it values",
        }
    }

    /// For missing values that no previous one fills.
    pub(super) const fn no_previous(self) -> &'static str {
        match self {
            Self::NewRun | Self::Run | Self::Again => "use --fill linear|zero or drop these rows",
            Self::Future | Self::Request => "give the first value or drop these rows",
        }
    }

    /// For two rows of one date.
    pub(super) const fn repeated_date(self) -> &'static str {
        match self {
            Self::NewRun => {
                "keep one row per date, or name the column that tells series apart with --series-id"
            }
            Self::Run | Self::Again | Self::Future | Self::Request => "keep one row per date",
        }
    }

    /// For columns that go on after the last value of others; none where that is how it has to be.
    pub(super) const fn known_ahead(self) -> Option<&'static str> {
        match self {
            Self::NewRun => Some(
                "move rows to forecast to a file of their own, for `forecast --future` and columns named by --known-future, \
                 or leave columns out with --columns; if the values are missing by accident, --fill previous|linear|zero \
                 fills them",
            ),
            Self::Run | Self::Again => Some(
                "move rows to forecast to a file of their own, for `forecast --future`; if the values are missing by \
                 accident, --fill previous|linear|zero fills them",
            ),
            Self::Request => {
                Some("end all columns at one row, and put known values of later rows into `future`")
            }
            Self::Future => None,
        }
    }

    /// For a cell that is no date: of this form, where it is known.
    pub(super) fn date(self, form: Option<&DateForm>) -> String {
        match (self, form.and_then(|form| Some((form.pattern(), form.example()?)))) {
            (Self::NewRun, None) => {
                "write all dates in one form, as 2016-07-01 13:00:00, or give theirs, as \
                                       --date-format '%d/%m/%Y %H:%M'"
                    .to_owned()
            }
            (Self::NewRun, Some((pattern, example))) => {
                format!(
                    "--date-format '{pattern}' reads dates like {example}; correct the date or the format"
                )
            }
            (Self::Run | Self::Again | Self::Future | Self::Request, None) => {
                "write all dates in one form, as 2016-07-01 13:00:00".to_owned()
            }
            (Self::Run | Self::Again | Self::Future | Self::Request, Some((_, example))) => {
                format!("write it like {example}, as the run's dates are")
            }
        }
    }

    /// For columns that are called a time and are no dates.
    pub(super) fn time_columns(self) -> String {
        match self {
            Self::NewRun => "name the columns of the date with --date-column, and its form with --date-format if need be, as in \
                             --date-column year,month; or say by --columns that they are values, or leave them out"
                .to_owned(),
            Self::Run | Self::Again | Self::Future | Self::Request => {
                "give each row its date, as the run's data have it".to_owned()
            }
        }
    }

    /// For dates that may be read in two ways.
    pub(super) fn ambiguous_dates(self, first: &str, second: &str) -> String {
        match self {
            Self::NewRun => format!("give --date-format '{first}' or '{second}'"),
            Self::Run | Self::Again | Self::Future | Self::Request => "write them like 2024-12-31".to_owned(),
        }
    }
}
