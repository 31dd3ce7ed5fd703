//! Why a command fails, and its exit code.

use crate::wording::of_run;
use landfall_forecast::export::ExportError;
use landfall_forecast::pretrained::PretrainedError;
use landfall_forecast::run::{Device, RunError, SettingsError};
use landfall_train::checkpoint::CheckpointError;
use landfall_train::data::{DataError, Setting};
use landfall_train::ranks::LaunchError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a command fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum CliError {
    #[error("{}", of_run(.0))]
    Run(RunError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Export(ExportError),
    /// A run that had begun.
    #[error("{}", of_run(.0))]
    During(RunError),
    #[error("{flag} and {other}: {why}")]
    Flags { flag: &'static str, other: String, why: &'static str },
    #[error("{flags} and {other}: {why}")]
    FlagsOf { flags: String, other: String, why: &'static str },
    #[error("{flag} {value}: {rule}")]
    Range { flag: &'static str, value: String, rule: &'static str },
    #[error("at the origin {origin}: {why}")]
    AtOrigin { origin: String, why: Box<CliError> },
    #[error(
        "the first origin, {origin}, knows {rows} rows, and a forecast needs {needed}; give later origins (--from, fewer --windows) or a shorter --context"
    )]
    TooEarly { origin: String, rows: usize, needed: usize },
    #[error("{}:{line}: {found} where this backtest has {expected}; --resume goes on with a file of the same command", .path.display())]
    OtherBacktest { path: PathBuf, line: u64, found: String, expected: String },
    #[error("{0} is needed; {1}")]
    Needed(&'static str, &'static str),
    #[error("{} is complete with {done} of {total} steps; give a larger {} or {} to go on", .run.display(), Setting("epochs"), Setting("max-steps"))]
    Complete { run: PathBuf, done: usize, total: usize },
    #[error("{} has done {done} steps, more than the {total} that are asked for; give a larger {} or {} to go on", .run.display(), Setting("epochs"), Setting("max-steps"))]
    FewerSteps { run: PathBuf, done: usize, total: usize },
    #[error("{run} has not been validated yet; finish it with: landfall train --resume {run}", run = .0.display())]
    Unvalidated(PathBuf),
    #[error("{} has no steps to go on with: its weights were imported, or fit without steps; start another run with: landfall train --config {} --out RUN", .0.display(), .0.join("config.toml").display())]
    NoSteps(PathBuf),
    #[error("{}: {source_name} is not what the run was trained on (column `{column}` has another mean or standard deviation); bring that data back, or start a new run", .run.display())]
    DataChanged { run: PathBuf, source_name: String, column: String },
    #[error("{}: its data holds series {now}, the run was trained on {before}; bring that data back, or start a new run", .run.display())]
    SeriesChanged { run: PathBuf, before: String, now: String },
    #[error(
        "two columns of the table would be called `{0}`: rename that column of the data, or ask for other levels (--interval, --no-interval)"
    )]
    NamedTwice(String),
    #[error("{} exists already; choose another file", .0.display())]
    OutExists(PathBuf),
    #[error("cannot write {}: {why}; choose another file", .path.display())]
    Write { path: PathBuf, why: std::io::Error },
    #[error("{setting} {device}: {why}; use {setting} cpu", setting = Setting("device"))]
    NoDevice { device: Device, why: landfall::Error },
    #[error("cannot listen on {address}: {why}; choose another --port or --host")]
    Listen { address: std::net::SocketAddr, why: std::io::Error },
    #[error("cannot read the token in {}: {why}; check --token-file", .path.display())]
    Token { path: PathBuf, why: std::io::Error },
    #[error(
        "--host {address} lets other machines ask, and there is no token; give --token-file FILE or LANDFALL_TOKEN, or --no-token to answer everybody"
    )]
    Open { address: std::net::IpAddr },
    /// An error of a run, in which its directory has the name that a person knows.
    #[error("{text}")]
    OfRun { text: String, code: u8 },
    #[error("the server cannot start: {0}")]
    Server(std::io::Error),
    #[error("standard output cannot be written: {0}")]
    Output(std::io::Error),
}

impl CliError {
    /// Why a new file was not written.
    pub(crate) fn unwritten(path: &Path, why: std::io::Error) -> Self {
        if why.kind() == ErrorKind::AlreadyExists {
            Self::OutExists(path.to_owned())
        } else {
            Self::Write { path: path.to_owned(), why }
        }
    }

    /// 2 for what was asked or given, 1 for what went wrong on the way.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::During(_) | Self::Server(_) | Self::Output(_) => 1,
            Self::AtOrigin { why, .. } => why.code(),
            Self::OfRun { code, .. } => *code,
            Self::Run(_)
            | Self::Launch(_)
            | Self::Export(_)
            | Self::Flags { .. }
            | Self::FlagsOf { .. }
            | Self::Range { .. }
            | Self::Needed(..)
            | Self::TooEarly { .. }
            | Self::OtherBacktest { .. }
            | Self::Complete { .. }
            | Self::FewerSteps { .. }
            | Self::Unvalidated(_)
            | Self::NoSteps(_)
            | Self::DataChanged { .. }
            | Self::SeriesChanged { .. }
            | Self::OutExists(_)
            | Self::NoDevice { .. }
            | Self::Listen { .. }
            | Self::Token { .. }
            | Self::Open { .. }
            | Self::Write { .. }
            | Self::NamedTwice(_) => 2,
        }
    }
}

impl From<ExportError> for CliError {
    fn from(e: ExportError) -> Self {
        if let ExportError::Run(e) = e { e.into() } else { Self::Export(e) }
    }
}

impl From<RunError> for CliError {
    fn from(e: RunError) -> Self {
        if let RunError::NoDevice { device, why } = e { Self::NoDevice { device, why } } else { Self::Run(e) }
    }
}

macro_rules! through_run_error {
    ($($error:ty),*) => {
        $(impl From<$error> for CliError {
            fn from(e: $error) -> Self {
                Self::Run(e.into())
            }
        })*
    };
}
through_run_error!(SettingsError, DataError, CheckpointError, PretrainedError, landfall::Error);

#[cfg(test)]
mod tests {
    use super::*;
    use landfall::cuda::Absence;

    #[test]
    fn a_device_that_is_not_there_is_named_by_its_flag() {
        let why = landfall::Error::from(Absence::Nvrtc);
        let error = CliError::from(RunError::NoDevice { device: Device::Cuda(1), why });
        let text = error.to_string();
        assert!(text.starts_with("--device cuda:1: ") && text.ends_with("; use --device cpu"), "{text}");
        assert_eq!(error.code(), 2);
    }
}
