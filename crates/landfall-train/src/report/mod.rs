//! What a person looks at: the forecasts of the test windows as a table.

mod predictions;

pub use predictions::Predictions;
