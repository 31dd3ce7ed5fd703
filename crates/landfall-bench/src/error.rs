//! Why the bench ends early.

use landfall_forecast::run::{RunError, SettingsError};
use landfall_train::data::DataError;
use landfall_train::ranks::LaunchError;
use std::io;
use std::path::PathBuf;

/// Why the bench ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Engine(#[from] landfall::Error),
    #[error(
        "--profile and --rows {row}: a profile is of whole steps; name rows of steps, such as seed or deep (`--rows steps` is all of them)"
    )]
    NoStep { row: String },
    #[error("{} exists already; choose another file", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {why}; choose another file", .path.display())]
    Write { path: PathBuf, why: io::Error },
    #[error("the record {} cannot be read or written: {why}; check its folder", .path.display())]
    Record { path: PathBuf, why: io::Error },
    #[error("{} is no record: its first line is `{found}`, not `{header}`, or its last line is cut off; move it away", .path.display())]
    NotARecord { path: PathBuf, found: String, header: String },
    #[error(
        "row {row}: the model has {ours} parameters, that of {peer} {theirs}; the sizes in bench/peers/rows.py are other ones"
    )]
    OtherModel { row: String, ours: usize, peer: String, theirs: usize },
    #[error("{flag} {value}: {rule}")]
    Range { flag: &'static str, value: String, rule: &'static str },
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
}
