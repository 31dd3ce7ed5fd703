//! What is asked of the simulator and is not there.

use crate::message::setting::Setting;

/// What is asked of the simulator and is not there, or its table cannot be written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum GeneratedError {
    /// A part that there is not.
    #[error("{} `{name}`, expected one of {known}", Setting("parts"))]
    Part {
        /// What was given.
        name: String,
        /// The names of all parts.
        known: String,
    },
    /// Parts to take beside parts to leave out.
    #[error(
        "{} `{text}`: give names alone (these parts) or names with `-` alone (all but these)",
        Setting("parts")
    )]
    Mixed {
        /// What was given.
        text: String,
    },
    /// A frequency that no kind of series has.
    #[error("{} `{name}`, expected one of {known}", Setting("frequency"))]
    Frequency {
        /// What was given.
        name: String,
        /// The names of all frequencies.
        known: String,
    },
    /// The table cannot be written.
    #[error("the table cannot be written: {source}; check the disk or the program that reads it")]
    Write {
        /// Why not.
        source: std::io::Error,
    },
}

crate::message::debug_as_text!(GeneratedError);
