//! What an error about data is about: its place and its column, for whoever words it.

use crate::error::DataError;
use crate::error::covariates::CovariateError;
use crate::error::form::FormError;
use crate::error::read::ReadError;
use crate::error::series::SeriesError;
use crate::error::windows::WindowError;
use crate::message::place::Place;

impl DataError {
    /// Whether no series has rows enough for a window in each segment.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        matches!(
            self,
            Self::Window(
                WindowError::TooShort { .. }
                    | WindowError::TooShortForEtt { .. }
                    | WindowError::AllTooShort { .. }
            )
        )
    }

    /// The line or the row that it is about, where it is about one.
    pub fn place(&self) -> Option<&Place> {
        if let DataError::Read(ReadError::NotUtf8 { at })
        | DataError::Read(ReadError::Ragged { at, .. })
        | DataError::Read(ReadError::NotANumber { at, .. })
        | DataError::Read(ReadError::NoSeriesId { at, .. })
        | DataError::Read(ReadError::Binary { at })
        | DataError::Series(SeriesError::NoPreviousValue { at, .. })
        | DataError::Read(ReadError::Infinite { at, .. })
        | DataError::Read(ReadError::BadDate { at, .. })
        | DataError::Series(SeriesError::DatesDescend { at, .. })
        | DataError::Series(SeriesError::DuplicateDate { at, .. })
        | DataError::Read(ReadError::Malformed { at, .. })
        | DataError::Form(FormError::Doubtful { at, .. })
        | DataError::Covariates(
            CovariateError::NoCategory { at, .. } | CovariateError::Category { at, .. },
        ) = self
        {
            return Some(at);
        }
        None
    }

    /// The column that it is about, where it is about one.
    pub fn column(&self) -> Option<&str> {
        if let DataError::Series(SeriesError::UnknownColumn { name: column, .. })
        | DataError::Series(SeriesError::RequestedTwice { name: column, .. })
        | DataError::Series(SeriesError::TextTarget { name: column, .. })
        | DataError::Series(SeriesError::DuplicateColumn { name: column, .. })
        | DataError::Read(ReadError::NotANumber { column, .. })
        | DataError::Read(ReadError::NoSeriesId { column, .. })
        | DataError::Series(SeriesError::OtherColumns { column, .. })
        | DataError::Series(SeriesError::NoPreviousValue { column, .. })
        | DataError::Series(SeriesError::ColumnMissing { column, .. })
        | DataError::Read(ReadError::Infinite { column, .. })
        | DataError::Read(ReadError::BadDate { column, .. })
        | DataError::Read(ReadError::AmbiguousDates { column, .. })
        | DataError::Series(SeriesError::ColumnLength { column, .. })
        | DataError::Series(SeriesError::NotFinite { column, .. })
        | DataError::Window(WindowError::Unscalable { column, .. })
        | DataError::Window(WindowError::FarOut { column, .. })
        | DataError::Read(ReadError::ArrowType { column, .. })
        | DataError::Form(FormError::Doubtful { column, .. } | FormError::Century { column, .. })
        | DataError::Covariates(
            CovariateError::Target { column, .. }
            | CovariateError::Unknown { column, .. }
            | CovariateError::Twice { column, .. }
            | CovariateError::Varies { column, .. }
            | CovariateError::NoCategory { column, .. }
            | CovariateError::Category { column, .. }
            | CovariateError::Categories { column, .. },
        ) = self
        {
            return Some(column);
        }
        None
    }
}
