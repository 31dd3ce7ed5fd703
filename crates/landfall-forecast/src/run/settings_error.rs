//! Why settings are refused.

use super::near_names::meant;
use super::words::Text;
use std::path::PathBuf;

/// Why settings are refused.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum SettingsError {
    #[error("{}: cannot be read ({why}); check the path and its permissions", .path.display())]
    Read { path: PathBuf, why: std::io::Error },
    #[error("{}:{line}: {message}; correct the line", .path.display())]
    Toml { path: PathBuf, line: usize, message: String },
    #[error("settings cannot be written as TOML: {0}")]
    Unwritable(String),
    #[error("{}: written in version {found} of the format, and this program reads up to {known}; use a newer landfall", .path.display())]
    Version { path: PathBuf, found: u32, known: u32 },
    #[error("{key}: {why}")]
    Keyword { key: String, why: String },
    #[error("{setting} {value}: {rule}")]
    Range { setting: Text, value: String, rule: Text },
    #[error("unknown {key} `{value}`; {}choose from {known}", meant(.value, &.known.split(", ").collect::<Vec<_>>()))]
    Unknown { key: &'static str, value: String, known: String },
    #[error("{first} and {second}: {why}")]
    Conflict { first: Text, second: Text, why: Text },
    #[error("{0}")]
    Network(String),
    #[error("no parameter's name contains `{pattern}`, so it freezes none; one of the names is {example}")]
    FreezesNone { pattern: String, example: String },
    #[error("every parameter is frozen, so there is nothing to train; freeze fewer")]
    AllFrozen,
}

landfall::debug_as_text!(SettingsError);
