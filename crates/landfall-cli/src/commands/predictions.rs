//! `landfall evaluate --predictions`: a file with the forecast of every test window.

use crate::error::CliError;
use crate::table::twice;
use landfall_forecast::report::{PredictedColumns, Predictions, Windows};
use landfall_forecast::run::Intervals;
use landfall_train::data::{WindowForecast, WindowedPanel};
use landfall_train::files::Draft;
use std::io::BufWriter;
use std::path::Path;

/// Takes one window.
type Each<'a> = dyn FnMut(WindowForecast<'_>) -> Result<(), CliError> + Send + 'a;

/// A new file with the windows that `forecasts` hands over, whole or not at all.
pub(super) fn write(
    path: &Path,
    panel: &WindowedPanel,
    levels: &[f64],
    intervals: Option<&Intervals>,
    forecasts: impl FnOnce(&mut Each<'_>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let failed = |why| CliError::unwritten(path, why);
    if path.exists() {
        return Err(CliError::OutExists(path.to_owned()));
    }
    let bands = intervals.map_or(&[][..], Intervals::levels);
    let series: Vec<_> = panel.members().iter().map(|m| &m.series).collect();
    let columns = PredictedColumns { targets: panel.targets(), levels, bands };
    if let Some(name) = twice(&Windows::Numbers.header(&series, columns)) {
        return Err(CliError::NamedTwice(name));
    }
    let mut draft = Draft::of(path).map_err(failed)?;
    let table = Predictions::new(BufWriter::new(&mut draft), series, columns, Windows::Numbers);
    let mut table = table.map_err(failed)?;
    let mut rolling = intervals.map(|of| of.rolling(panel));
    forecasts(&mut |window| match &mut rolling {
        Some(rolling) => rolling.window(window, |window| table.window(&window).map_err(failed)),
        None => table.window(&window).map_err(failed),
    })?;
    table.finish().map_err(failed)?;
    draft.create().map_err(failed)
}
