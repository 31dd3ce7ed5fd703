//! Whether the data of a run that goes on is what it was trained on.

use crate::data::WindowedPanel;
use crate::error::ForecastError;
use crate::run::{Run, Settings};
use std::path::Path;

/// Checks that the series of a run have the statistics that they had when it began.
pub(super) fn unchanged(
    path: &Path,
    stored: &Run,
    now: &WindowedPanel,
    settings: &Settings,
) -> Result<(), ForecastError> {
    let (run, was) = (path.to_owned(), stored.scalers());
    let tables = settings.scaler.as_deref().unwrap_or_default();
    let names = || tables.iter().map(|table| table.series.as_str());
    if !was.iter().map(|(name, _)| name.as_str()).eq(names()) {
        let (before, now) =
            (was.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names().collect::<Vec<_>>());
        return Err(ForecastError::SeriesChanged { run, before: before.join(", "), now: now.join(", ") });
    }
    for (((_, was), m), table) in was.iter().zip(now.members()).zip(tables) {
        let same =
            |c: &usize| table.mean.get(*c) == was.mean().get(*c) && table.std.get(*c) == was.std().get(*c);
        if let Some(c) = (0..was.channels()).find(|c| !same(c)) {
            let column = settings.columns.iter().flatten().nth(c).cloned().unwrap_or_default();
            let data = m.series.source().to_owned();
            return Err(ForecastError::DataChanged { run, data, column });
        }
    }
    Ok(())
}

/// Checks that the tokens of a run have the statistics that they had when it began.
pub(super) fn samples_unchanged(path: &Path, was: &Settings, now: &Settings) -> Result<(), ForecastError> {
    let tables = |s: &Settings| s.scaler.clone().unwrap_or_default();
    let features = now.names.as_ref().map_or(&[][..], |names| &names.features);
    for (was, now) in tables(was).iter().zip(&tables(now)) {
        let same = |f: &usize| was.mean.get(*f) == now.mean.get(*f) && was.std.get(*f) == now.std.get(*f);
        if let Some(f) = (0..features.len()).find(|f| !same(f)) {
            let column = format!("{}.{}", now.series, features[f]);
            let (run, data) = (path.to_owned(), "its data".to_owned());
            return Err(ForecastError::DataChanged { run, data, column });
        }
    }
    Ok(())
}
