//! Intervals of forecasts that are made later: the errors that they are made of.

use super::note_all;
use crate::args::KeptIntervals;
use crate::error::CliError;
use landfall_forecast::forecasting::series;
use landfall_forecast::run::{Run, RunError};
use landfall_train::data::WindowedPanel;

/// The levels of a run's intervals, or those that are asked for, in percent, with the series whose windows give the errors that
/// they are made of, divided as the run's data was; none without levels.
pub(super) fn interval_errors(
    run: &Run,
    asked: &KeptIntervals,
) -> Result<Option<(Vec<f64>, WindowedPanel)>, CliError> {
    let levels = if asked.no_interval { Vec::new() } else { run.interval_levels(asked.interval.as_deref())? };
    if levels.is_empty() {
        return match asked.data.is_empty() {
            true => Ok(None),
            false => {
                Err(CliError::Needed("--interval", "--data gives the errors that intervals are made of"))
            }
        };
    }
    let panel = series(run, &asked.data, None)?;
    note_all(panel.notices());
    let panel = match run.windowed(panel) {
        // Intervals that nobody asked for now are left out where nothing could be tested.
        Err(RunError::Untested { .. }) if asked.interval.is_none() => return Ok(None),
        windowed => windowed?,
    };
    run.enough_windows_ahead(panel.clone(), None, &levels)?;
    Ok(Some((levels, panel)))
}
