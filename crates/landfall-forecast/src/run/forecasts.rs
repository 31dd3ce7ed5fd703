//! The forecasts of all windows of a segment, one window at a time.

use super::RunError;
use super::ensembles::Scaled;
use super::forecaster::Forecaster;
use crate::data::{Digits, Segment, WindowForecast, WindowedPanel};
use crate::train::{Evaluation, Loss, QuantileScore, Session};
use landfall::DType;

/// Forecasts every window of a segment, series after series, window after window: `each` gets them one at a time, in the
/// units of the data. `session` holds the data of `panel`; `forecaster` makes forecasts of its network's predictions, where
/// one was chosen. Memory does not grow with the number of windows.
///
/// # Errors
/// A device fault; a value that cannot be scaled; what `each` returns.
pub fn window_forecasts<E: From<RunError> + From<landfall::Error> + Send>(
    session: &mut Session,
    panel: &WindowedPanel,
    segment: Segment,
    forecaster: Option<&Forecaster>,
    mut each: impl FnMut(WindowForecast<'_>) -> Result<(), E> + Send,
) -> Result<(), E> {
    let (mut values, mut widths) = (Vec::new(), Vec::new());
    let holds_all = session.options().dtype == DType::F64;
    let lowest: Vec<f64> =
        panel.columns().iter().take(panel.targets()).map(|c| lowest(forecaster, c)).collect();
    scaled_forecasts(session, panel, segment, forecaster, |window, _| {
        let scaler = &panel.members()[window.series].scaler;
        let size = window.outputs * window.horizon;
        values.clear();
        for (target, (scaled, lowest)) in window.values.chunks_exact(size).zip(&lowest).enumerate() {
            let digits = if holds_all { Digits::ALL } else { scaler.digits(target) };
            values.extend(scaled.iter().map(|x| digits.round(scaler.inverse(target, *x)).max(*lowest)));
        }
        widths.clear();
        for (scaled, std) in window.widths.chunks_exact(window.horizon).zip(scaler.std()) {
            widths.extend(scaled.iter().map(|width| width * std));
        }
        each(WindowForecast { values: &values, widths: &widths, ..window })
    })
}

/// The smallest value of a forecast of a column in its own unit.
fn lowest(forecaster: Option<&Forecaster>, column: &str) -> f64 {
    forecaster.map_or(f64::NEG_INFINITY, |f| f.lowest(column))
}

/// Errors of a forecaster over all windows of a segment.
///
/// # Errors
/// A device fault; a value that cannot be scaled.
pub(super) fn evaluate(
    session: &mut Session,
    panel: &WindowedPanel,
    segment: Segment,
    forecaster: &Forecaster,
) -> Result<Evaluation, RunError> {
    let mut sums = session.empty_evaluation(segment);
    let (mut squared, mut absolute) = (vec![0.0; sums.targets], vec![0.0; sums.targets]);
    let levels = match &session.options().loss {
        Loss::Quantile(levels) => levels.clone(),
        Loss::Distribution(..) | Loss::CrossEntropy | Loss::Mse | Loss::Mae | Loss::Huber(_) => Vec::new(),
    };
    let (mut number, mut pinball, mut covered) = (0, 0.0, 0.0);
    scaled_forecasts(session, panel, segment, Some(forecaster), |window, scaled| -> Result<(), RunError> {
        let rows = scaled.len() / panel.columns().len();
        for target in 0..sums.targets {
            let truth = &scaled[target * rows + window.start_row..];
            let errors = || window.of(target).iter().zip(truth).map(|(p, y)| p - y);
            squared[target] = errors().map(|e| e * e).sum();
            absolute[target] = errors().map(f64::abs).sum();
            for (k, tau) in levels.iter().enumerate() {
                let above = window.level(target, k).iter().zip(truth).map(|(q, y)| y - q);
                pinball += above.map(|e| (tau * e).max((tau - 1.0) * e)).sum::<f64>();
            }
            let outermost =
                window.level(target, 0).iter().zip(window.level(target, levels.len().saturating_sub(1)));
            covered += outermost.zip(truth).filter(|((low, high), y)| low <= y && y <= high).count() as f64;
        }
        sums.add_window(number, window.series, &squared, &absolute);
        number += 1;
        Ok(())
    })?;
    if let (Some(low), Some(high)) = (levels.first(), levels.last()) {
        let values = (number * sums.targets * sums.horizon).max(1) as f64;
        sums.quantiles = Some(QuantileScore {
            pinball: pinball / (values * levels.len() as f64),
            coverage: covered / values,
            nominal: high - low,
        });
    }
    Ok(sums)
}

/// As [`window_forecasts`], scaled; `each` gets the scaled values of the window's series `[columns, rows]` too.
fn scaled_forecasts<E: From<RunError> + From<landfall::Error> + Send>(
    session: &mut Session,
    panel: &WindowedPanel,
    segment: Segment,
    forecaster: Option<&Forecaster>,
    mut each: impl FnMut(WindowForecast<'_>, &[f64]) -> Result<(), E> + Send,
) -> Result<(), E> {
    let loss = session.options().loss.clone();
    let (outputs, point) = (loss.outputs(), loss.point());
    let parts = panel.parts(segment);
    let Some(horizon) = parts.first().map(|part| part.windows.horizon()) else { return Ok(()) };
    let size = outputs * horizon;
    let mut windows = parts.iter().enumerate().flat_map(|(series, part)| {
        let target = |start| part.windows.target(start).start;
        part.windows.starts().enumerate().map(move |(window, start)| (series, window, target(start)))
    });
    let mut values = vec![0.0; panel.targets() * size];
    // The ensemble forecasts many windows at once.
    let ahead = match forecaster.filter(|f| f.ensemble) {
        Some(f) => f.of_windows(&parts, (panel.targets(), horizon)).map_err(E::from)?,
        None => Scaled::default(),
    };
    let each_ahead = (panel.targets() * horizon).max(1);
    let (mut ahead, mut widths) =
        (ahead.values.chunks_exact(each_ahead), ahead.widths.chunks_exact(each_ahead));
    let (mut at, mut scaled) = (usize::MAX, Vec::new());
    let engine = session.engine.clone();
    // Inside, every launch finds the engine's threads at hand.
    engine.enter(|| {
        session.predict_all(segment, |_, predicted| {
            for (predicted, (series, window, start_row)) in
                predicted.chunks_exact(values.len()).zip(&mut windows)
            {
                let part = &parts[series];
                if at != series {
                    (at, scaled) = (series, part.scaler.scale_f64(part.series).map_err(RunError::from)?);
                }
                values.copy_from_slice(predicted);
                if let Some(f) = forecaster {
                    let (rows, own) = (part.series.rows(), ahead.next().unwrap_or_default());
                    for (c, values) in values.chunks_exact_mut(size).enumerate() {
                        let prior = f.prior(&panel.columns()[c], part.scaler, c);
                        let context = part.windows.context();
                        let own = own.get(c * horizon..).unwrap_or_default();
                        let history = &scaled[c * rows..][..start_row];
                        f.combine((history, own), prior, (context, horizon), values);
                    }
                }
                let values = &values;
                let (bounds, widths) = (&[], widths.next().unwrap_or_default());
                let forecast = WindowForecast {
                    series,
                    window,
                    start_row,
                    horizon,
                    outputs,
                    point,
                    values,
                    bounds,
                    widths,
                };
                each(forecast, &scaled)?;
            }
            Ok(())
        })
    })
}
