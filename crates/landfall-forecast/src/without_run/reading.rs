//! Series that no run knows, as settings name them, and the rows after them.

use super::roles::Roles;
use super::spread::Spread;
use crate::data::{Frame, Future, Known, Panel, ReadOptions, Series, ahead};
use crate::error::ForecastError;
use crate::run::{Data, OneOrMore, Settings, SettingsError, Text, interval_levels};
use crate::zero_shot::ZeroShotError;
use std::path::PathBuf;

/// The series that settings name, to be forecast without a run: data, how it is read, and columns.
///
/// # Errors
/// Settings that do not fit together; files that cannot be read; data that is no series.
pub fn series(settings: &Settings) -> Result<Panel, ForecastError> {
    // Which levels there are is no matter of reading.
    let settings = Settings { quantiles: None, ..settings.clone() };
    match settings.resolve()?.load()? {
        Data::Series(panel) => Ok(panel),
        Data::Walk(_) | Data::Tokens(_) => Err(ForecastError::NoSeries),
    }
}

/// As [`series`], of a data frame in place of files, which `source` names in messages.
///
/// # Errors
/// As [`series`].
pub fn series_of_frame(settings: &Settings, frame: &Frame, source: &str) -> Result<Panel, ForecastError> {
    let data = Some(OneOrMore(vec![source.into()]));
    let settings = Settings { quantiles: None, data, ..settings.clone() };
    Ok(settings.resolve()?.load_frame(frame, source)?)
}

/// The rows after those of a panel, from files: the values of its columns known in advance that only whoever forecasts has.
///
/// # Errors
/// [`SettingsError::Conflict`] for a panel without such columns; whatever keeps the files from being such rows.
pub fn load_future(settings: &Settings, panel: &Panel, files: &[PathBuf]) -> Result<Panel, ForecastError> {
    let Some(options) = future_options(settings, panel) else {
        let why = "it has the values of columns known in advance; name them with {known_future}";
        let (first, second) = (Text::setting("future"), "no column known in advance".into());
        return Err(SettingsError::Conflict { first, second, why: why.into() }.into());
    };
    Ok(Panel::read(files, &options)?)
}

/// Whether the rows to forecast of a panel have the values of its columns known in advance, so that missing ones are said before anything
/// is computed.
///
/// # Errors
/// As [`ahead`].
pub fn check_future(
    panel: &Panel,
    (roles, future): (&Roles, Option<Future<'_>>),
    horizon: usize,
) -> Result<(), ForecastError> {
    panel.series().iter().try_for_each(|series| next(panel, series, (roles, future), horizon).map(drop))
}

/// The values of columns known in advance in the rows after a series of a panel; none where no covariates are read.
pub(super) fn next(
    panel: &Panel,
    series: &Series,
    (roles, future): (&Roles, Option<Future<'_>>),
    horizon: usize,
) -> Result<Vec<Vec<f64>>, ForecastError> {
    let known: &[Known] = if roles.covariates() > 0 { panel.known() } else { &[] };
    Ok(ahead(series, known, (future, panel.series().len() == 1), horizon)?)
}

/// How rows after those of a panel are read: the columns known in advance that only whoever forecasts has, the dates and the series. None
/// where it has no such columns.
#[must_use]
pub fn future_options(settings: &Settings, panel: &Panel) -> Option<ReadOptions> {
    let given = given(panel);
    if given.is_empty() {
        return None;
    }
    let found = panel.found();
    let names = |names: &[String]| (!names.is_empty()).then(|| OneOrMore(names.to_vec()));
    let settings = Settings {
        series_id: settings.series_id.clone().or(names(&found.series_id)),
        date_column: settings.date_column.clone().or(names(&found.date_column)),
        date_format: settings.date_format.clone().or(found.date_format.clone()),
        decimal: settings.decimal.or(found.decimal),
        thousands: settings.thousands.or(found.thousands),
        ..settings.clone()
    };
    Some(settings.future_options(given))
}

/// Columns of a panel whose values in the rows to forecast only whoever asks for a forecast has.
fn given(panel: &Panel) -> Vec<String> {
    let columns = panel.columns();
    let known = columns[columns.len() - panel.known().len()..].iter().zip(panel.known());
    known.filter(|(_, why)| **why == Known::Given).map(|(column, _)| column.clone()).collect()
}

/// Checks what is asked for before anything is read: a horizon of at most [`PanelForecaster::most_rows`](super::PanelForecaster::most_rows), and levels.
///
/// # Errors
/// [`ZeroShotError::Horizon`]; [`SettingsError::Range`] for levels.
pub fn check(horizon: usize, most: usize, spread: Spread<'_>) -> Result<(), ForecastError> {
    if horizon == 0 || horizon > most {
        return Err(ZeroShotError::Horizon { horizon, most }.into());
    }
    interval_levels(spread.intervals)?;
    let refused = |level: f64, rule: &'static str| {
        let setting = Text::setting("quantiles");
        Err(SettingsError::Range { setting, value: level.to_string(), rule: rule.into() }.into())
    };
    for (i, &level) in spread.quantiles.iter().enumerate() {
        if !(0.0 < level && level < 1.0) {
            return refused(level, "levels are above 0 and below 1, as in {quantiles 0.1,0.5,0.9}");
        }
        if spread.quantiles[..i].contains(&level) {
            return refused(level, "a level is given twice");
        }
    }
    Ok(())
}

/// That a panel has columns which are not read, in a sentence.
#[must_use]
pub fn unused(panel: &Panel, roles: &Roles) -> Option<String> {
    let rest = panel.columns().get(panel.targets()..).filter(|rest| !rest.is_empty())?;
    if roles.covariates() > 0 {
        return None;
    }
    Some(format!("the pretrained forecaster reads no covariates: {} left out", rest.join(", ")))
}
