//! Forecasts as the program makes them, in steps that print nothing.

use crate::data::{Fill, Frame, Future, Panel};
use crate::error::ForecastError;
use crate::models::Predicts;
use crate::run::{Data, Device, Forecast, Run, RunError, Weights, on_device};
use crate::train::Session;
use std::path::PathBuf;

/// The series that a run is to continue: its own, or those of other files.
///
/// # Errors
/// A run that forecasts no rows; files that cannot be read; an only series that is too short to be continued.
pub fn series(run: &Run, data: &[PathBuf], fill: Option<Fill>) -> Result<Panel, ForecastError> {
    forecasts_rows(run)?;
    let Data::Series(panel) = run.load(data, fill)? else {
        return Err(RunError::NoFuture { path: run.path().to_owned() }.into());
    };
    long_enough(run, panel)
}

/// The series of a data frame that a run is to continue; `source` is what messages call it.
///
/// # Errors
/// As [`series`].
pub fn series_of_frame(run: &Run, frame: &Frame, source: &str) -> Result<Panel, ForecastError> {
    forecasts_rows(run)?;
    long_enough(run, run.load_frame(frame, source)?)
}

fn forecasts_rows(run: &Run) -> Result<(), RunError> {
    match run.resolved().network.predicts() {
        Predicts::Classes(_) => Err(RunError::Classes { path: run.path().to_owned() }),
        Predicts::Rows(_) | Predicts::Value => Ok(()),
    }
}

/// Refuses an only series that is too short before a session is made, which takes a moment.
fn long_enough(run: &Run, panel: Panel) -> Result<Panel, ForecastError> {
    if let [only] = panel.series() {
        run.check_rows(only)?;
    }
    Ok(panel)
}

/// The values of a run's columns known in advance in the rows after these series, where a forecast needs them.
///
/// # Errors
/// Files that cannot be read, or that lack a series, a column or a row.
pub fn future(run: &Run, panel: &Panel, files: &[PathBuf]) -> Result<Option<Panel>, ForecastError> {
    let future = if files.is_empty() { None } else { Some(run.load_future(files)?) };
    run.check_future(panel, future.as_ref().map(Future::Rows))?;
    Ok(future)
}

/// As [`future`], of a data frame that `source` names in messages, or of none.
///
/// # Errors
/// As [`future`].
pub fn future_of_frame(
    run: &Run,
    panel: &Panel,
    (frame, source): (Option<&Frame>, &str),
) -> Result<Option<Panel>, ForecastError> {
    let future = frame.map(|frame| run.load_future_frame(frame, source)).transpose()?;
    run.check_future(panel, future.as_ref().map(Future::Rows))?;
    Ok(future)
}

/// The levels of the intervals of a forecast, in percent, and what has to be known of them. Those that the run was trained with
/// are left out where there are no windows to take errors from.
///
/// # Errors
/// [`RunError::TooFewErrors`], [`RunError::Untested`] of levels that are asked for.
pub fn levels_ahead(
    run: &Run,
    (panel, known): (&Panel, Option<&Panel>),
    asked: Option<&[f64]>,
) -> Result<(Vec<f64>, Option<String>), ForecastError> {
    let levels = run.interval_levels(asked)?;
    if levels.is_empty() {
        return Ok((levels, None));
    }
    let enough =
        run.windowed(panel.clone()).and_then(|windowed| run.enough_windows_ahead(windowed, known, &levels));
    match enough {
        Ok(note) => Ok((levels, note)),
        Err(RunError::Untested { .. }) if run.has_spread() => Ok((levels, None)),
        Err(why @ (RunError::TooFewErrors { .. } | RunError::Untested { .. })) if asked.is_none() => {
            Ok((Vec::new(), Some(format!("the forecast has no intervals: {why}"))))
        }
        Err(why) => Err(why.into()),
    }
}

/// A run with its weights on a device, ready to forecast.
pub struct Predictor {
    run: Run,
    session: Session,
    weights: Weights,
    device: Option<String>,
}

impl Predictor {
    /// The weights of a run on a device; `threads` are those of the processor.
    ///
    /// # Errors
    /// Weights that are not there or damaged; a device that is not there.
    pub fn new(
        run: Run,
        weights: Weights,
        device: Device,
        threads: Option<usize>,
    ) -> Result<Self, ForecastError> {
        let placed = on_device(device, threads, |engine| run.predictor(engine, weights))?;
        Ok(Self { device: placed.note(), session: placed.made, weights, run })
    }

    /// The device in one line, and why it is that one where it was chosen; nothing on a computer without a GPU.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
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
    ) -> Result<(Vec<Forecast>, Vec<String>), ForecastError> {
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
    ) -> Result<(), ForecastError> {
        if levels.is_empty() {
            return Ok(());
        }
        let engine = &self.session.engine;
        Ok(self.run.add_intervals(engine, self.weights, (panel.clone(), known), levels, forecasts)?)
    }
}
