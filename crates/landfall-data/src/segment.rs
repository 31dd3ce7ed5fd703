//! Which rows of a series: those of training, of validation or of the test.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One of the three parts of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Segment {
    /// Rows that the scaler and the weights are fit on.
    Train,
    /// Rows that choose among weights.
    Validation,
    /// Rows that are scored once.
    Test,
}

impl Segment {
    /// The three, in the order of their rows.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        })
    }
}
