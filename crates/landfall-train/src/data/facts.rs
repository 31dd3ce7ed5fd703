//! What an error about data is about: its place and its column, for whoever words it.

use super::place::Place;
use super::{CovariateError, DataError, FormError};

impl DataError {
    /// The line or the row that it is about, where it is about one.
    pub fn place(&self) -> Option<&Place> {
        if let Self::NotUtf8 { at }
        | Self::Ragged { at, .. }
        | Self::NotANumber { at, .. }
        | Self::NoSeriesId { at, .. }
        | Self::Binary { at }
        | Self::NoPreviousValue { at, .. }
        | Self::Infinite { at, .. }
        | Self::BadDate { at, .. }
        | Self::DatesDescend { at, .. }
        | Self::DuplicateDate { at, .. }
        | Self::Malformed { at, .. }
        | Self::Form(FormError::Doubtful { at, .. })
        | Self::Covariates(CovariateError::NoCategory { at, .. } | CovariateError::Category { at, .. }) =
            self
        {
            return Some(at);
        }
        None
    }

    /// The column that it is about, where it is about one.
    pub fn column(&self) -> Option<&str> {
        if let Self::UnknownColumn { name: column, .. }
        | Self::RequestedTwice { name: column, .. }
        | Self::DuplicateColumn { name: column, .. }
        | Self::NotANumber { column, .. }
        | Self::NoSeriesId { column, .. }
        | Self::OtherColumns { column, .. }
        | Self::NoPreviousValue { column, .. }
        | Self::ColumnMissing { column, .. }
        | Self::Infinite { column, .. }
        | Self::BadDate { column, .. }
        | Self::AmbiguousDates { column, .. }
        | Self::ColumnLength { column, .. }
        | Self::NotFinite { column, .. }
        | Self::Unscalable { column, .. }
        | Self::FarOut { column, .. }
        | Self::ArrowType { column, .. }
        | Self::Form(FormError::Doubtful { column, .. } | FormError::Century { column, .. })
        | Self::Covariates(
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
