//! What data is read for, which decides what a message about it can advise.

use crate::dates::form::DateForm;
use crate::message::setting::{Setting, Spelling};

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
    /// A request to a server that forecasts any series: nothing says how they are read.
    Unknown,
}

impl Purpose {
    /// For a cell that is no number.
    pub(crate) fn cell(self) -> String {
        match self {
            Self::NewRun => {
                format!("correct or clear the cell, or choose others with {}", Setting("columns"))
            }
            Self::Run | Self::Again | Self::Future | Self::Request | Self::Unknown => {
                "correct or clear the cell".to_owned()
            }
        }
    }

    /// For a column without a value.
    pub(crate) fn empty_column(self) -> String {
        let fill = Setting("fill");
        match self {
            Self::NewRun => format!("leave it out or use {fill} zero"),
            Self::Run | Self::Again => format!("give it values or use {fill} zero"),
            Self::Future | Self::Request | Self::Unknown => "give it values".to_owned(),
        }
    }

    /// For missing values that no previous one fills.
    pub(crate) fn no_previous(self) -> String {
        match self {
            Self::NewRun | Self::Run | Self::Again => {
                format!("use {} linear|zero or drop these rows", Setting("fill"))
            }
            Self::Future | Self::Request | Self::Unknown => {
                "give the first value or drop these rows".to_owned()
            }
        }
    }

    /// For two rows of one date.
    pub(crate) fn repeated_date(self) -> String {
        match self {
            Self::NewRun => format!(
                "keep one row per date, or name the column that tells series apart with {}",
                Setting("series-id")
            ),
            Self::Run | Self::Again | Self::Future | Self::Request => "keep one row per date".to_owned(),
            Self::Unknown => "keep one row per date, or add a column with the name of the series".to_owned(),
        }
    }

    /// For columns that go on after the last value of others; none where that is how it has to be.
    pub(crate) fn known_ahead(self) -> Option<String> {
        let (known, columns, fill) = (Setting("known-future"), Setting("columns"), Setting("fill"));
        let elsewhere = match Spelling::now() {
            Spelling::Key => "move rows to forecast to data of their own",
            Spelling::Flag => "move rows to forecast to a file of their own, for `forecast --future`",
            Spelling::Keyword => "move rows to forecast to a frame of their own, futr_df of predict()",
        };
        match self {
            Self::NewRun => Some(format!(
                "{elsewhere} and columns named by {known}, or leave columns out with {columns}; if the values are missing by \
                 accident, {fill} previous|linear|zero fills them"
            )),
            Self::Run | Self::Again => Some(format!(
                "{elsewhere}; if the values are missing by accident, {fill} previous|linear|zero fills them"
            )),
            Self::Request => Some(
                "end all columns at one row, and put known values of later rows into `future`".to_owned(),
            ),
            Self::Unknown => Some("end all columns at one row, or leave the longer ones out".to_owned()),
            Self::Future => None,
        }
    }

    /// For a cell that is no date: of this form, where it is known.
    pub(crate) fn date(self, form: Option<&DateForm>) -> String {
        match (self, form.and_then(|form| Some((form.pattern(), form.example()?)))) {
            (Self::NewRun, None) => {
                format!(
                    "write all dates in one form, as 2016-07-01 13:00:00, or give theirs, as {} '%d/%m/%Y %H:%M'",
                    Setting("date-format")
                )
            }
            (Self::NewRun, Some((pattern, example))) => {
                format!(
                    "{} '{pattern}' reads dates like {example}; correct the date or the format",
                    Setting("date-format")
                )
            }
            (Self::Run | Self::Again | Self::Future | Self::Request | Self::Unknown, None) => {
                "write all dates in one form, as 2016-07-01 13:00:00".to_owned()
            }
            (Self::Run | Self::Again | Self::Future | Self::Request, Some((_, example))) => {
                format!("write it like {example}, as the run's dates are")
            }
            (Self::Unknown, Some((_, example))) => {
                format!("write it like {example}, as the other dates are")
            }
        }
    }

    /// For columns that are called a time and are no dates.
    pub(crate) fn time_columns(self) -> String {
        match self {
            Self::NewRun => format!(
                "name the columns of the date with {column}, and its form with {} if need be, as in {column} year,month; or say by {} \
                 that they are values, or leave them out",
                Setting("date-format"),
                Setting("columns"),
                column = Setting("date-column")
            ),
            Self::Run | Self::Again | Self::Future | Self::Request => {
                "give each row its date, as the run's data have it".to_owned()
            }
            Self::Unknown => "give each row its date in one column, like 2024-12-31 13:00:00".to_owned(),
        }
    }

    /// For dates that may be read in two ways.
    pub(crate) fn ambiguous_dates(self, first: &str, second: &str) -> String {
        match self {
            Self::NewRun => format!("give {} '{first}' or '{second}'", Setting("date-format")),
            Self::Run | Self::Again | Self::Future | Self::Request | Self::Unknown => {
                "write them like 2024-12-31".to_owned()
            }
        }
    }
}
