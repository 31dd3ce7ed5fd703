//! Forecasts as the program makes them, in steps that print nothing.

use crate::device::on;
use crate::error::CliError;
use landfall_train::data::{Fill, Future, Panel};
use landfall_train::models::Task;
use landfall_train::run::{Data, Device, Forecast, Run, RunError, Weights};
use landfall_train::train::Session;
use std::path::PathBuf;

/// The series that a run is to continue: its own, or those of other files.
///
/// # Errors
/// A run that forecasts no rows; files that cannot be read; an only series that is too short to be continued.
pub fn series(run: &Run, data: &[PathBuf], fill: Option<Fill>) -> Result<Panel, CliError> {
    let path = || run.path().to_owned();
    if run.resolved().network.task() == Task::Classify {
        return Err(RunError::Classes { path: path() }.into());
    }
    let Data::Series(panel) = run.load(data, fill)? else {
        return Err(RunError::NoFuture { path: path() }.into());
    };
    // Refused before a session is made: it takes a moment.
    if let [only] = panel.series() {
        only.last_rows(run.resolved().network.context())?;
    }
    Ok(panel)
}

/// The values of a run's columns known in advance in the rows after these series, where a forecast needs them.
///
/// # Errors
/// Files that cannot be read, or that lack a series, a column or a row.
pub fn future(run: &Run, panel: &Panel, files: &[PathBuf]) -> Result<Option<Panel>, CliError> {
    let future = if files.is_empty() { None } else { Some(run.load_future(files)?) };
    run.check_future(panel, future.as_ref().map(Future::Rows))?;
    Ok(future)
}

/// A run with its weights on a device, ready to forecast.
pub struct Predictor {
    run: Run,
    session: Session,
    weights: Weights,
    device: String,
}

impl Predictor {
    /// The weights of a run on a device; `threads` are those of the processor.
    ///
    /// # Errors
    /// Weights that are not there or damaged; a device that is not there.
    pub fn new(run: Run, weights: Weights, device: Device, threads: Option<usize>) -> Result<Self, CliError> {
        let placed = on(device, threads, |engine| run.predictor(engine, weights))?;
        Ok(Self { device: placed.line(), session: placed.made, weights, run })
    }

    /// The device in one line, and why it is that one where it was chosen.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The rows after the last one of each series, with the values of [`future`]; of several, those that are too short or
    /// unknown to the run are left out, and said.
    ///
    /// # Errors
    /// When no series remains; a device fault.
    pub fn forecast(
        &mut self,
        panel: &Panel,
        future: Option<Future<'_>>,
    ) -> Result<(Vec<Forecast>, Vec<String>), CliError> {
        Ok(self.run.forecast_all(&mut self.session, panel, future)?)
    }

    /// Adds intervals of these levels, in percent, to forecasts of the rows after the panel's last ones or, with `known`, after
    /// the last ones there; none for no levels.
    ///
    /// # Errors
    /// As [`Run::add_intervals`].
    pub fn add_intervals(
        &self,
        (panel, known): (&Panel, Option<&Panel>),
        levels: &[f64],
        forecasts: &mut [Forecast],
    ) -> Result<(), CliError> {
        if levels.is_empty() {
            return Ok(());
        }
        let engine = &self.session.engine;
        Ok(self.run.add_intervals(engine, self.weights, (panel.clone(), known), levels, forecasts)?)
    }
}
