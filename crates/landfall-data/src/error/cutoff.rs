//! Why no forecast is made from a place in time.

use crate::message::count;

/// Why no forecast can be made from a place in time.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum CutoffError {
    #[error(
        "`{text}` cannot be read as a date of the data; write it like {example}, or like 2020-01-31 18:00"
    )]
    NoDate { text: String, example: String },
    #[error(
        "`{text}` is no row number, and the data has no dates; give the number of the last known row, 0 to {last}"
    )]
    NoNumber { text: String, last: usize },
    #[error("{file}: no row of {cutoff}; the nearest ones are of {before} and {after}")]
    Absent { file: String, cutoff: String, before: String, after: String },
    #[error("{file}: {cutoff} is before the first row, {first}")]
    Before { file: String, cutoff: String, first: String },
    #[error(
        "{file}: {cutoff} is after the last row, {last}; a forecast from there would need rows that are not known"
    )]
    After { file: String, cutoff: String, last: String },
    #[error("{file}: {} up to {cutoff} where the forecast needs {needed}; {}", count(*.rows, "row"), Earliest(.earliest))]
    Early { file: String, cutoff: String, rows: usize, needed: usize, earliest: Option<String> },
    #[error(
        "{windows} windows of horizon {horizon}, {step} rows apart, take {taken} rows and some before them; the longest series has {longest}; give fewer or closer windows"
    )]
    TooManyOrigins { windows: usize, horizon: usize, step: usize, taken: usize, longest: usize },
    #[error("the first origin, {first}, is after the last one, {last}; exchange them")]
    Reversed { first: String, last: String },
    #[error("no origin in this range has {horizon} rows after it; origins from {first} to {last} have")]
    NoOrigin { horizon: usize, first: String, last: String },
}

crate::message::debug_as_text!(CutoffError);

struct Earliest<'a>(&'a Option<String>);

impl std::fmt::Display for Earliest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(label) => write!(f, "the earliest possible is {label}"),
            None => f.write_str("the whole series is shorter"),
        }
    }
}
