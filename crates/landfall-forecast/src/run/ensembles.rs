//! The ensemble of a run: fit to its series, and its forecasts after their rows, scaled as the run scales them.

use super::RunError;
use crate::data::{Scaler, Series};
use crate::ensemble::{Ahead, Ensemble, Known, Members, Past, PretrainedMember};
use chrono::DateTime;
use std::sync::Arc;

/// The file of a run's directory with the models of its ensemble.
pub(super) const ENSEMBLE: &str = "ensemble.json";

/// The first rows of a series.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) series: &'a Series,
    pub(super) scaler: &'a Scaler,
    /// How many are known.
    pub(super) known: usize,
}

/// Fits models to the first rows of the series, as many as `known` says of each; those of which nothing is known have none.
pub(super) fn fit<'a>(
    (members, network): (Members, &Arc<PretrainedMember>),
    (season, targets): (usize, usize),
    series: impl Iterator<Item = (&'a Series, usize)>,
    threads: Option<usize>,
) -> Result<Ensemble, RunError> {
    let of = |(series, known): (&'a Series, usize)| {
        let rows = |values: &'a Vec<f64>| &values[..known.min(values.len())];
        let columns = series.values().iter().take(targets).map(rows).collect();
        Known { name: series.name(), first: first_date(series), columns }
    };
    Ok(Ensemble::fit(members, season, series.map(of), threads)?.with_network(Arc::clone(network)))
}

/// Its forecasts of the target columns after these rows, in the units of the data: `[rows, targets]`.
pub(super) fn ahead(
    ensemble: &Ensemble,
    rows: &[Rows<'_>],
    (targets, horizon): (usize, usize),
    only: bool,
) -> Result<Arc<Vec<Ahead>>, RunError> {
    let mut past = Vec::with_capacity(rows.len() * targets);
    for one in rows {
        let place = ensemble.place(one.series.name(), only);
        let fit = place.and_then(|place| Some((place, first_row(ensemble.rows(place), one.series)?)));
        for (column, values) in one.series.values().iter().take(targets).enumerate() {
            past.push(Past { fit, column, values: &values[..one.known] });
        }
    }
    Ok(ensemble.forecast_again(&past, horizon)?)
}

/// Forecasts `[rows, targets, horizon]`, scaled.
#[derive(Debug, Clone, Default)]
pub(super) struct Scaled {
    pub(super) values: Vec<f64>,
    /// Half the widths of their own 80 % intervals.
    pub(super) widths: Vec<f64>,
}

/// Forecasts of these rows, scaled.
pub(super) fn scaled(ahead: &[Ahead], rows: &[Rows<'_>], targets: usize) -> Scaled {
    let mut found = Scaled::default();
    for (i, ahead) in ahead.iter().enumerate() {
        let (scaler, column) = (rows[i / targets.max(1)].scaler, i % targets.max(1));
        let (mean, std) = (scaler.mean()[column], scaler.std()[column]);
        found.values.extend(ahead.values.iter().map(|y| (y - mean) / std));
        found.widths.extend(ahead.half_widths().map(|width| width / std));
    }
    found
}

/// The first row of a series, counted from its first row at the fit. Without dates, or a step, it is that one, and not known where
/// the series has fewer rows than then.
fn first_row((fit, rows): (Option<i64>, usize), series: &Series) -> Option<i64> {
    let counted = (series.rows() >= rows).then_some(0);
    let (Some(fit), Some(now)) = (fit, first_date(series)) else { return counted };
    if fit == now {
        return Some(0);
    }
    let usual = series.dates().map(|dates| dates.spacing().usual);
    let date = |milliseconds| DateTime::from_timestamp_millis(milliseconds).map(|date| date.naive_utc());
    let steps = date(fit).zip(date(now)).and_then(|(fit, now)| usual?.steps(fit, now));
    steps.or(counted)
}

fn first_date(series: &Series) -> Option<i64> {
    Some(series.dates()?.values().first()?.and_utc().timestamp_millis())
}
