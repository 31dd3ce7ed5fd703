//! `landfall evaluate --predictions`: a file with the forecast of every test window.

use crate::error::CliError;
use landfall_forecast::report::{PredictedColumns, Predictions, Windows};
use landfall_forecast::run::Intervals;
use landfall_forecast::table::twice;
use landfall_train::data::{WindowForecast, WindowedPanel};
use landfall_train::files::Draft;
use std::io::BufWriter;
use std::path::Path;

/// Takes one window.
type Each<'a> = dyn FnMut(WindowForecast<'_>) -> Result<(), CliError> + Send + 'a;

/// The intervals of windows.
pub(super) enum Bands<'a> {
    /// Of these levels in percent, which the windows have themselves.
    Own(&'a [f64]),
    /// Made of the errors so far.
    Of(&'a Intervals),
}

impl<'a> From<Option<&'a Intervals>> for Bands<'a> {
    fn from(of: Option<&'a Intervals>) -> Self {
        of.map_or(Self::Own(&[]), Self::Of)
    }
}

/// A new file with the windows that `forecasts` hands over, whole or not at all.
pub(super) fn write(
    path: &Path,
    panel: &WindowedPanel,
    levels: &[f64],
    intervals: Bands<'_>,
    forecasts: impl FnOnce(&mut Each<'_>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let failed = |why| CliError::unwritten(path, why);
    if path.exists() {
        return Err(CliError::OutExists(path.to_owned()));
    }
    let (bands, mut rolling) = match intervals {
        Bands::Own(levels) => (levels, None),
        Bands::Of(intervals) => (intervals.levels(), Some(intervals.rolling(panel))),
    };
    let series: Vec<_> = panel.members().iter().map(|m| &m.series).collect();
    let columns = PredictedColumns { targets: panel.targets(), levels, bands };
    if let Some(name) = twice(&Windows::Numbers.header(&series, columns)) {
        return Err(CliError::NamedTwice(name));
    }
    let mut draft = Draft::of(path).map_err(failed)?;
    let table = Predictions::new(BufWriter::new(&mut draft), series, columns, Windows::Numbers);
    let mut table = table.map_err(failed)?;
    forecasts(&mut |window| match &mut rolling {
        Some(rolling) => rolling.window(window, |window| table.window(&window).map_err(failed)),
        None => table.window(&window).map_err(failed),
    })?;
    table.finish().map_err(failed)?;
    draft.create().map_err(failed)
}
