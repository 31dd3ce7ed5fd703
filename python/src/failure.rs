//! Errors of forecasting as Python exceptions: their class, their text, and the facts that a program may ask for.

use landfall_forecast::ForecastError;
use landfall_forecast::chronos::ChronosError;
use landfall_forecast::ensemble::EnsembleError;
use landfall_forecast::export::ExportError;
use landfall_forecast::pretrained_network::NetworkError;
use landfall_forecast::run::{RunError, SettingsError};
use landfall_forecast::zero_shot::ZeroShotError;
use landfall_train::checkpoint::CheckpointError;
use landfall_train::data::{CovariateError, DataError, ReadError, SeriesError, Spelling, Unit};
use pyo3::prelude::*;

/// Why a forecaster failed.
pub(crate) enum Failure {
    Run(ForecastError),
    /// While windows were counted for intervals.
    Intervals(ForecastError),
}

macro_rules! of_run {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(e: $error) -> Self {
                Self::Run(e.into())
            }
        })*
    };
}
of_run!(ForecastError, RunError, SettingsError, DataError);

impl Failure {
    fn error(&self) -> &ForecastError {
        let (Self::Run(e) | Self::Intervals(e)) = self;
        e
    }

    fn of_run(&self) -> Option<&RunError> {
        if let ForecastError::Run(e) | ForecastError::During(e) = self.error() { Some(e) } else { None }
    }

    fn of_data(&self) -> Option<&DataError> {
        if let Some(RunError::Data(e)) = self.of_run() { Some(e) } else { None }
    }

    /// What a pretrained network fails with, of a run's ensemble or without a run.
    fn of_network(&self) -> (Option<&ZeroShotError>, Option<&ChronosError>) {
        match (self.error(), self.of_run()) {
            (ForecastError::ZeroShot(e), _)
            | (_, Some(RunError::Ensemble(EnsembleError::Network(NetworkError::ZeroShot(e))))) => {
                (Some(e), None)
            }
            (ForecastError::Chronos(e), _)
            | (_, Some(RunError::Ensemble(EnsembleError::Network(NetworkError::Chronos(e))))) => {
                (None, Some(e))
            }
            _ => (None, None),
        }
    }

    /// The name of the class of the exception.
    fn class(&self) -> &'static str {
        let of_run = self.of_run();
        let diverged = matches!(
            of_run,
            Some(
                RunError::NonFinite { .. }
                    | RunError::Diverged { .. }
                    | RunError::Checkpoint(CheckpointError::Diverged { .. })
            )
        );
        let (of_zero_shot, of_chronos) = self.of_network();
        let diverged =
            diverged || matches!(of_chronos, Some(ChronosError::Engine(landfall::Error::NonFinite { .. })));
        let file = matches!(
            of_run,
            Some(
                RunError::Exists { .. }
                    | RunError::InUse { .. }
                    | RunError::Gone { .. }
                    | RunError::NotARun { .. }
                    | RunError::NoCheckpoint { .. }
                    | RunError::Write { .. }
                    | RunError::NoWeights { .. }
                    | RunError::Checkpoint(_)
                    | RunError::Data(
                        DataError::Read(ReadError::FileMissing { .. })
                            | DataError::Read(ReadError::Unreadable { .. })
                            | DataError::Read(ReadError::BadArrow { .. })
                    )
                    | RunError::Settings(SettingsError::Read { .. } | SettingsError::Version { .. })
                    | RunError::Ensemble(EnsembleError::File { .. } | EnsembleError::Weights { .. })
            )
        );
        let file = file
            || matches!(of_zero_shot, Some(ZeroShotError::Weights { .. } | ZeroShotError::Checkpoint(_)))
            || matches!(
                of_chronos,
                Some(
                    ChronosError::Read { .. }
                        | ChronosError::Config { .. }
                        | ChronosError::Option { .. }
                        | ChronosError::Format { .. }
                        | ChronosError::Tensor { .. }
                        | ChronosError::Write { .. }
                        | ChronosError::OtherTraining { .. }
                        | ChronosError::Taken { .. }
                        | ChronosError::Adapter { .. }
                        | ChronosError::Checkpoint(_)
                )
            );
        let device = matches!(of_run, Some(RunError::Engine(_) | RunError::NoDevice { .. }));
        if diverged {
            "NonFiniteError"
        } else if file {
            "FileError"
        } else if device {
            "DeviceError"
        } else if matches!(self.of_data(), Some(DataError::Series(SeriesError::UnknownColumn { .. }))) {
            "MissingColumnError"
        } else if matches!(self.of_data(), Some(DataError::Read(ReadError::ArrowType { .. }))) {
            "ArgumentError"
        } else {
            "InvalidValueError"
        }
    }

    fn text(&self) -> String {
        let text = Spelling::Keyword.within(|| self.error().to_string());
        if let Some(RunError::Exists { path }) = self.of_run() {
            let path = path.display();
            return format!(
                "the run directory {path} already exists; choose another folder, or load it with Forecaster.load(\"{path}\") \
                 and resume() it"
            );
        }
        if let ForecastError::NoSteps(path) = self.error() {
            return format!(
                "{} has no steps to go on with: its weights were imported, or fit without steps; fit() starts another run",
                path.display()
            );
        }
        let untested = matches!(self.of_run(), Some(RunError::Untested { .. }));
        match self {
            Self::Intervals(_) if untested => {
                format!("{text}; intervals need such windows: level=[] forecasts without intervals")
            }
            Self::Intervals(_) | Self::Run(_) => text,
        }
    }

    /// The setting, or the argument of a method, that it is about.
    fn setting(&self) -> Option<String> {
        if let Some(RunError::Settings(SettingsError::Keyword { key, .. })) = self.of_run() {
            return Some(key.clone());
        }
        let future = matches!(self.of_data(), Some(DataError::Covariates(CovariateError::NoFuture { .. })));
        future.then(|| "futr_df".to_owned())
    }
}

/// An error as the exception of its kind.
pub(crate) fn raised(py: Python<'_>, e: &Failure) -> PyErr {
    let exception = exception(py, e.class(), &e.text());
    let facts = || -> PyResult<()> {
        let value = exception.value(py);
        value.setattr("setting", e.setting())?;
        let place = e.of_data().and_then(DataError::place);
        value.setattr("source", place.map(|place| place.file.as_str()))?;
        let of = |unit: &[Unit]| place.filter(|place| unit.contains(&place.unit)).map(|place| place.line);
        value.setattr("line", of(&[Unit::Line]))?;
        value.setattr("row", of(&[Unit::Row, Unit::FrameRow]))?;
        value.setattr("column", e.of_data().and_then(DataError::column))
    };
    match facts() {
        Ok(()) => exception,
        Err(failed) => failed,
    }
}

/// Why a model was not exported, as the exception of its kind.
pub(crate) fn not_exported(py: Python<'_>, why: ExportError) -> PyErr {
    let file = matches!(why, ExportError::Exists(_) | ExportError::Write { .. });
    if let ExportError::Chronos(why) = why {
        return raised(py, &ForecastError::from(why).into());
    }
    exception(py, if file { "FileError" } else { "InvalidValueError" }, &why.to_string())
}

/// A defect of this program.
pub(crate) fn internal(py: Python<'_>, what: &str) -> PyErr {
    exception(py, "Error", &format!("internal error: {what}; please report it with the code that you ran"))
}

/// An exception of a class of `landfall.errors`.
fn exception(py: Python<'_>, class: &str, text: &str) -> PyErr {
    match py.import("landfall.errors").and_then(|errors| errors.getattr(class)?.call1((text,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(other) => other,
    }
}
