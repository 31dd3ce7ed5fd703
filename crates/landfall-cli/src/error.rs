//! Why a command fails, and its exit code.

use crate::wording::worded;
use landfall_forecast::ForecastError;
use landfall_forecast::export::ExportError;
use landfall_forecast::pretrained::PretrainedError;
use landfall_forecast::run::{RunError, SettingsError};
use landfall_forecast::zero_shot::ZeroShotError;
use landfall_train::checkpoint::CheckpointError;
use landfall_train::data::DataError;
use landfall_train::ranks::LaunchError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a command fails.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum CliError {
    #[error("{}", worded(.0))]
    Forecast(ForecastError),
    #[error(transparent)]
    ZeroShot(#[from] ZeroShotError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Export(ExportError),
    #[error("{flag} and {other}: {why}")]
    Flags { flag: &'static str, other: String, why: &'static str },
    #[error("{flags} and {other}: {why}")]
    FlagsOf { flags: String, other: String, why: &'static str },
    #[error("{flag} {value}: {rule}")]
    Range { flag: &'static str, value: String, rule: &'static str },
    #[error("{}:{line}: {found} where this backtest has {expected}; --resume goes on with a file of the same command", .path.display())]
    OtherBacktest { path: PathBuf, line: u64, found: String, expected: String },
    #[error("{0} is needed; {1}")]
    Needed(&'static str, &'static str),
    #[error("{run} has not been validated yet; finish it with: landfall train --resume {run}", run = .0.display())]
    Unvalidated(PathBuf),
    #[error(
        "two columns of the table would be called `{0}`: rename that column of the data, or ask for other levels (--interval, --no-interval)"
    )]
    NamedTwice(String),
    #[error("{} exists already; choose another file", .0.display())]
    OutExists(PathBuf),
    #[error("cannot write {}: {why}; choose another file", .path.display())]
    Write { path: PathBuf, why: std::io::Error },
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

landfall::debug_as_text!(CliError);

impl CliError {
    /// Of a run that had begun.
    pub(crate) fn during(e: RunError) -> Self {
        ForecastError::During(e).into()
    }

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
            Self::Server(_) | Self::Output(_) => 1,
            Self::Forecast(e) => {
                if e.is_late() {
                    1
                } else {
                    2
                }
            }
            Self::ZeroShot(ZeroShotError::Engine(_)) => 1,
            Self::OfRun { code, .. } => *code,
            Self::Launch(_)
            | Self::ZeroShot(_)
            | Self::Export(_)
            | Self::Flags { .. }
            | Self::FlagsOf { .. }
            | Self::Range { .. }
            | Self::Needed(..)
            | Self::OtherBacktest { .. }
            | Self::Unvalidated(_)
            | Self::OutExists(_)
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

impl From<ForecastError> for CliError {
    fn from(e: ForecastError) -> Self {
        Self::Forecast(e)
    }
}

macro_rules! through_run_error {
    ($($error:ty),*) => {
        $(impl From<$error> for CliError {
            fn from(e: $error) -> Self {
                Self::Forecast(e.into())
            }
        })*
    };
}
through_run_error!(RunError, SettingsError, DataError, CheckpointError, PretrainedError, landfall::Error);

#[cfg(test)]
mod tests {
    use super::*;
    use landfall::cuda::Absence;
    use landfall_forecast::run::Device;
    use landfall_train::data::Spelling;

    #[test]
    fn a_device_that_is_not_there_is_named_by_its_flag() {
        let why = landfall::Error::from(Absence::Nvrtc);
        let error = CliError::from(RunError::NoDevice { device: Device::Cuda(1), why });
        let text = Spelling::Flag.within(|| error.to_string());
        assert!(text.starts_with("--device cuda:1: ") && text.ends_with("; use --device cpu"), "{text}");
        assert_eq!(error.code(), 2);
    }
}
