//! Forecasts of all windows of a segment without a run, and their scores.

use super::forecaster::PanelForecaster;
use super::roles::Roles;
use super::spread::{Spread, spread};
use crate::data::conformal::IntervalSums;
use crate::data::{QuantileSums, ScoreSums, Segment, WindowForecast, WindowedPanel};
use crate::error::ForecastError;
use crate::models::zero_shot::LEVELS;
use crate::run::measured::{baselines, put, sums};
use crate::run::{EvaluationRecord, IntervalRecord, Intervals, SeriesRecord};

/// Groups that are forecast at once, about.
const AT_ONCE: usize = 256;

/// The windows that a forecaster without a run is scored on.
#[derive(Debug, Clone, Copy)]
pub struct Scoring<'a> {
    /// The series.
    pub panel: &'a WindowedPanel,
    /// What is read of them.
    pub roles: &'a Roles,
    /// Which windows.
    pub segment: Segment,
    /// Seasonal period in rows: of the seasonal naive forecast, and of the scale of MASE.
    pub period: usize,
    /// Levels of the central intervals that are scored, in percent.
    pub intervals: &'a [f64],
}

impl Scoring<'_> {
    /// The number of windows.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.panel.parts(self.segment).iter().map(|part| part.windows.count()).sum()
    }
}

/// Levels of the quantiles that are scored: 0.1 to 0.9.
pub const SCORED: [f64; LEVELS.len()] = LEVELS;

/// The first row that is forecast of a window, the place of its series and its number there.
type Place = (usize, usize, usize);

impl PanelForecaster {
    /// Forecasts every window, series after series: the quantiles at [`SCORED`] and the intervals. A window reads all rows before its
    /// first one, up to the context of the forecaster.
    ///
    /// # Errors
    /// A device fault; what `each` returns.
    pub fn window_forecasts<E: From<ForecastError>>(
        &mut self,
        of: &Scoring<'_>,
        mut each: impl FnMut(WindowForecast<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (most, levels) = (self.context(), self.levels().to_vec());
        let together = (AT_ONCE / (of.roles.targets() * (1 + of.roles.covariates())).max(1)).max(1);
        let spread_of = Spread { quantiles: &SCORED, intervals: of.intervals };
        for (series, part) in of.panel.parts(of.segment).into_iter().enumerate() {
            let (rows, horizon) = (of.roles.rows(part.series), part.windows.horizon());
            let starts = part.windows.starts().enumerate();
            let places: Vec<Place> =
                starts.map(|(window, start)| (part.windows.target(start).start, series, window)).collect();
            for places in places.chunks(together) {
                let mut groups = Vec::with_capacity(places.len() * of.roles.targets());
                for (at, ..) in places {
                    let ahead = rows.ahead(*at, horizon);
                    for target in 0..of.roles.targets() {
                        groups.push(rows.group(target, (*at, most), &ahead)?);
                    }
                }
                let done = self.quantiles(&groups, horizon)?;
                for (&(start_row, series, window), done) in
                    places.iter().zip(done.chunks(of.roles.targets().max(1)))
                {
                    let (mut values, mut bounds) = (Vec::new(), Vec::new());
                    for (target, quantiles) in done.iter().enumerate() {
                        let made = spread(quantiles, rows.ends(target, start_row), &levels, spread_of);
                        values.extend(made.quantiles.into_iter().flatten());
                        bounds.extend(made.intervals.into_iter().flatten().flatten());
                    }
                    each(WindowForecast {
                        series,
                        window,
                        start_row,
                        horizon,
                        outputs: SCORED.len(),
                        point: SCORED.len() / 2,
                        values: &values,
                        bounds: &bounds,
                        widths: &[],
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The scores of every window beside those of the baselines; `each` gets the forecasts one at a time.
    ///
    /// # Errors
    /// A segment without windows; a device fault; what `each` returns.
    pub fn evaluate<E: From<ForecastError>>(
        &mut self,
        of: &Scoring<'_>,
        mut each: impl FnMut(&WindowForecast<'_>) -> Result<(), E>,
    ) -> Result<EvaluationRecord, E> {
        let Scoring { panel, segment, period, intervals: levels, .. } = *of;
        let late = |why| E::from(ForecastError::from(why));
        let (members, targets) = (panel.members(), panel.targets());
        let horizon = members.first().map_or(0, |m| m.segments.windows(segment).horizon());
        let names = panel.columns().get(..targets).unwrap_or_default();
        let mut all = ScoreSums::new(names, horizon, 0).map_err(late)?;
        let mut by_series = vec![(0usize, 0.0, 0.0); members.len()];
        let (mut metrics, mut quantiles) = (sums(panel, segment, period), QuantileSums::new(panel, &SCORED));
        let mut covered = vec![IntervalSums::default(); levels.len()];
        self.window_forecasts(of, |w| {
            let member = &members[w.series];
            let (mut squared, mut absolute) = (vec![0.0; targets], vec![0.0; targets]);
            let std = &member.scaler.std()[..targets];
            for (target, std) in std.iter().enumerate() {
                let actual = w.actual(&member.series, target);
                for (y, f) in actual.iter().zip(w.of(target)) {
                    let error = (f - y) / std;
                    squared[target] += error * error;
                    absolute[target] += error.abs();
                }
                for (k, (level, sums)) in levels.iter().zip(&mut covered).enumerate() {
                    let (low, high) = w.interval(target, k);
                    for ((low, high), y) in low.iter().zip(high).zip(actual) {
                        sums.add(*level, (low / std, high / std), y / std);
                    }
                }
            }
            all.add_window(&squared, &absolute, std).map_err(late)?;
            let (windows, sum, distance) = &mut by_series[w.series];
            *windows += 1;
            *sum += squared.iter().sum::<f64>();
            *distance += absolute.iter().sum::<f64>();
            metrics.add(&w);
            quantiles.add(&w);
            each(&w)
        })?;
        let one = |(member, (windows, squared, absolute)): (&crate::data::Member, (usize, f64, f64))| {
            let values = (windows * targets * horizon) as f64;
            let name = member.series.name().to_owned();
            SeriesRecord { name, windows, mse: squared / values, mae: absolute / values }
        };
        let several =
            members.iter().zip(by_series).filter(|(_, (windows, ..))| members.len() > 1 && *windows > 0);
        let mut record =
            EvaluationRecord::of_scores(all.finish().map_err(late)?, segment, several.map(one).collect());
        put(&mut record, &metrics);
        record.quantile_scores = quantiles.finish();
        record.baselines = baselines(panel, segment, period).map_err(late)?;
        if segment == Segment::Test && !levels.is_empty() {
            let (baseline_name, beside) = Intervals::of_baseline(panel, levels, period)
                .map_err(|why| E::from(ForecastError::from(why)))?;
            let record_of = |(k, (level, sums)): (usize, (&f64, &IntervalSums))| IntervalRecord {
                level: *level,
                own: sums.into(),
                baseline_name: baseline_name.clone(),
                baseline: beside.get(k).copied(),
            };
            record.intervals = levels.iter().zip(&covered).enumerate().map(record_of).collect();
        }
        Ok(record)
    }
}
