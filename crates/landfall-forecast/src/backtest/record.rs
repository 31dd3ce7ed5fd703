//! What a backtest comes to: sums over its windows, whose size does not depend on their number, and their means.

use super::errors::{Deviation, ErrorSums, Errors, Unit};
use super::origins::{ByOrigin, Group};
use crate::data::{Baseline, Origins, Panel, Series, WindowForecast};
use crate::run::QuantileRecord;
use serde::Serialize;

/// Pairs of a series and a column whose forecasts are kept to be drawn, and how many forecasts of each about.
const PAIRS: usize = 4;
const DRAWN: usize = 12;

/// The forecast of a window that is drawn.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) series: usize,
    pub(crate) target: usize,
    pub(crate) start_row: usize,
    pub(crate) point: Vec<f64>,
}

/// The errors of a backtest, of the forecaster and of the baselines over the same windows.
///
/// Origins are added in their order: [`Backtest::begin_origin`], then [`Backtest::add`] for each series.
#[derive(Debug, Clone)]
pub struct Backtest {
    columns: Vec<String>,
    levels: Vec<f64>,
    units: Vec<Option<Vec<Unit>>>,
    baselines: Vec<Baseline>,
    origins: usize,
    all: Sums,
    by_step: Vec<Sums>,
    by_column: Vec<Sums>,
    by_series: Vec<(String, Sums)>,
    by_origin: ByOrigin,
    current: Option<Group>,
    /// Of the actual values, `[series, targets]`.
    deviations: Vec<Deviation>,
    /// Sum of the quantile losses, values between the outermost levels, and values.
    quantiles: (f64, usize, usize),
    ends: Option<(String, String)>,
    every: usize,
    shown: Vec<Shown>,
}

/// Sums of the forecaster, then of each baseline, over some windows.
#[derive(Debug, Clone)]
struct Sums {
    windows: usize,
    of: Vec<ErrorSums>,
}

impl Sums {
    fn new(kinds: usize) -> Self {
        Self { windows: 0, of: vec![ErrorSums::default(); kinds] }
    }
}

/// What some errors are of.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Of {
    Column {
        column: String,
    },
    Step {
        step: usize,
    },
    Series {
        series: String,
    },
    /// One origin, or some that follow each other: by the last known rows of the first and the last one.
    Origins {
        cutoff: String,
        last_cutoff: String,
        origins: usize,
    },
}

/// Errors of a baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BaselineErrors {
    /// Such as `seasonal naive (24)`.
    pub name: String,
    /// Its errors.
    #[serde(flatten)]
    pub errors: Errors,
}

/// Errors over some of the windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// What they are of.
    #[serde(flatten)]
    pub of: Of,
    /// Windows.
    pub windows: usize,
    /// Errors of the forecaster.
    #[serde(flatten)]
    pub errors: Errors,
    /// Errors of the baselines.
    pub baselines: Vec<BaselineErrors>,
}

/// The means of a backtest. Errors are of scaled values, those of columns in original units.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Origins.
    pub origins: usize,
    /// Windows: forecasts of one series from one origin.
    pub windows: usize,
    /// The last known row at the first origin.
    pub first_cutoff: String,
    /// The last known row at the last origin.
    pub last_cutoff: String,
    /// Errors over all windows.
    #[serde(flatten)]
    pub errors: Errors,
    /// Scores of the quantiles, where there are any.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<QuantileRecord>,
    /// Errors of the baselines.
    pub baselines: Vec<BaselineErrors>,
    /// Errors of each column, in original units.
    pub columns: Vec<Scored>,
    /// Errors of each step of the horizon.
    pub steps: Vec<Scored>,
    /// Errors of each series, where there are several.
    pub series: Vec<Scored>,
    /// Errors of each origin; of very many origins, of groups of them.
    pub by_origin: Vec<Scored>,
}

impl Backtest {
    /// Empty sums for the first `panel.targets()` columns. `period` is that of the seasonal naive forecast, which is left out where
    /// an origin knows less than a season; forecasts are made where at least `needed` rows are known.
    #[must_use]
    pub fn new(panel: &Panel, origins: &Origins, (period, needed): (usize, usize), levels: &[f64]) -> Self {
        let (targets, horizon) = (panel.targets(), origins.horizon());
        let first = |s: &Series| {
            let known = |origin: usize| origins.known(origin, s);
            (0..origins.count()).filter(|o| origins.is_whole(*o, s)).map(known).find(|known| *known >= needed)
        };
        let history = panel.series().iter().filter_map(first).min().unwrap_or(0);
        let mut baselines = vec![Baseline::LastValue];
        baselines.extend((period > 1 && period <= history).then_some(Baseline::SeasonalNaive { period }));
        let kinds = 1 + baselines.len();
        let by_series = panel.series().iter().map(|s| (s.name().to_owned(), Sums::new(kinds))).collect();
        Self {
            columns: panel.columns().iter().take(targets).cloned().collect(),
            levels: levels.to_vec(),
            units: vec![None; panel.series().len()],
            baselines,
            origins: 0,
            all: Sums::new(kinds),
            by_step: vec![Sums::new(kinds); horizon],
            by_column: vec![Sums::new(kinds); targets],
            by_series,
            by_origin: ByOrigin::default(),
            current: None,
            deviations: vec![Deviation::default(); targets * panel.series().len()],
            quantiles: (0.0, 0, 0),
            ends: None,
            every: origins.count().div_ceil(DRAWN).max(1),
            shown: Vec::new(),
        }
    }

    /// Whether it is known what the errors of a series are measured in.
    #[must_use]
    pub fn has_units(&self, series: usize) -> bool {
        self.units.get(series).is_some_and(Option::is_some)
    }

    /// What the errors of each target column of a series are measured in, before its first window is added.
    pub fn measure(&mut self, series: usize, units: Vec<Unit>) {
        if let Some(own) = self.units.get_mut(series) {
            *own = Some(units);
        }
    }

    /// The next origin.
    pub fn begin_origin(&mut self, label: String) {
        self.close();
        let sums = vec![ErrorSums::default(); self.all.of.len()];
        self.current = Some(Group { first: label.clone(), last: label, origins: 1, windows: 0, sums });
    }

    /// Adds the forecast of a series from this origin. `whole` is the series, `known` what was known of it at the origin.
    pub fn add(&mut self, window: &WindowForecast<'_>, whole: &Series, known: &Series) {
        let Some(units) = self.units.get(window.series).cloned().flatten() else { return };
        let Some(current) = &mut self.current else { return };
        let kinds = self.all.of.len();
        let own = &mut self.by_series[window.series].1;
        let mut groups = [&mut self.all, own];
        groups.iter_mut().for_each(|sums| sums.windows += 1);
        self.by_step.iter_mut().chain(&mut self.by_column).for_each(|sums| sums.windows += 1);
        current.windows += 1;
        for (target, unit) in units.iter().enumerate().take(self.columns.len()) {
            let (actual, history) = (window.actual(whole, target), &known.values()[target]);
            let deviation = &mut self.deviations[window.series * self.columns.len() + target];
            actual.iter().for_each(|y| deviation.add(*y));
            let original = Unit { std: 1.0, ..*unit };
            for kind in 0..kinds {
                let repeated: Vec<f64>;
                let forecast = match kind.checked_sub(1).and_then(|b| self.baselines.get(b)) {
                    Some(baseline) => {
                        repeated = baseline.continuation(history).take(window.horizon).collect();
                        &repeated
                    }
                    None => window.of(target),
                };
                let mut sum = ErrorSums::default();
                for (step, (y, f)) in actual.iter().zip(forecast).enumerate() {
                    sum.add(*y, *f, *unit);
                    self.by_step[step].of[kind].add(*y, *f, *unit);
                    self.by_column[target].of[kind].add(*y, *f, original);
                }
                groups.iter_mut().for_each(|sums| sums.of[kind].join(&sum));
                current.sums[kind].join(&sum);
            }
            add_quantiles(&mut self.quantiles, &self.levels, window, (target, actual), unit.std);
            let drawn = window.window.is_multiple_of(self.every);
            if drawn && window.series * self.columns.len() + target < PAIRS {
                let (series, start_row, point) =
                    (window.series, window.start_row, window.of(target).to_vec());
                self.shown.push(Shown { series, target, start_row, point });
            }
        }
    }

    /// The mean squared error of the forecaster from the last origin, scaled.
    #[must_use]
    pub fn last_mse(&self) -> Option<f64> {
        self.current.as_ref().filter(|c| c.windows > 0).map(|c| c.sums[0].errors(None).mse)
    }

    /// Windows that were added.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.all.windows
    }

    /// Windows of a series that were added.
    #[must_use]
    pub fn windows_of(&self, series: usize) -> usize {
        self.by_series.get(series).map_or(0, |(_, sums)| sums.windows)
    }

    fn close(&mut self) {
        let Some(group) = self.current.take().filter(|group| group.windows > 0) else { return };
        self.origins += 1;
        match &mut self.ends {
            Some((_, last)) => last.clone_from(&group.last),
            None => self.ends = Some((group.first.clone(), group.last.clone())),
        }
        self.by_origin.add(group);
    }

    pub(crate) fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// The means, where a window was added.
    #[must_use]
    pub fn record(&mut self) -> Option<Record> {
        self.close();
        let (first_cutoff, last_cutoff) = self.ends.clone()?;
        let targets = self.columns.len();
        let cell = |series: usize, target: usize| self.deviations[series * targets + target];
        let scaled = self.units.iter().enumerate().filter_map(|(s, units)| {
            Some(units.as_ref()?.iter().take(targets).enumerate().map(move |(t, u)| (s, t, u.std)))
        });
        let pooled: f64 = scaled.flatten().map(|(s, t, std)| cell(s, t).squared(std)).sum();
        let column = |t: usize| (0..self.units.len()).map(|s| cell(s, t).squared(1.0)).sum();
        let scored = |of: Of, sums: &Sums, deviations| self.scored(of, sums.windows, &sums.of, deviations);
        let by_column = self.columns.iter().zip(&self.by_column).enumerate();
        let by_column = by_column
            .map(|(t, (name, sums))| scored(Of::Column { column: name.clone() }, sums, Some(column(t))));
        let by_step = self.by_step.iter().enumerate();
        let by_step = by_step.map(|(i, sums)| scored(Of::Step { step: i + 1 }, sums, None));
        let several = self.by_series.len() > 1;
        let by_series = self.by_series.iter().filter(|(_, sums)| several && sums.windows > 0);
        let by_series = by_series.map(|(name, sums)| scored(Of::Series { series: name.clone() }, sums, None));
        let by_origin = self.by_origin.groups.iter().map(|g| {
            let (cutoff, last_cutoff) = (g.first.clone(), g.last.clone());
            self.scored(Of::Origins { cutoff, last_cutoff, origins: g.origins }, g.windows, &g.sums, None)
        });
        let (errors, baselines) = self.means(&self.all.of, Some(pooled));
        let (pinball, covered, values) = self.quantiles;
        let nominal = self.levels.first().zip(self.levels.last());
        let quantiles = nominal.filter(|_| values > 0).map(|(low, high)| QuantileRecord {
            pinball: pinball / values as f64,
            coverage: covered as f64 / values as f64,
            coverage_nominal: high - low,
        });
        Some(Record {
            origins: self.origins,
            windows: self.all.windows,
            first_cutoff,
            last_cutoff,
            errors,
            quantiles,
            baselines,
            columns: by_column.collect(),
            steps: by_step.collect(),
            series: by_series.collect(),
            by_origin: by_origin.collect(),
        })
    }

    fn scored(&self, of: Of, windows: usize, sums: &[ErrorSums], deviations: Option<f64>) -> Scored {
        let (errors, baselines) = self.means(sums, deviations);
        Scored { of, windows, errors, baselines }
    }

    /// The errors of the forecaster, and those of the baselines.
    fn means(&self, sums: &[ErrorSums], deviations: Option<f64>) -> (Errors, Vec<BaselineErrors>) {
        let baseline = |(b, sums): (&Baseline, &ErrorSums)| BaselineErrors {
            name: b.to_string(),
            errors: sums.errors(deviations),
        };
        let baselines = self.baselines.iter().zip(sums.iter().skip(1)).map(baseline).collect();
        (sums[0].errors(deviations), baselines)
    }
}

/// Adds the quantile losses of a column, scaled, and how many of its values lie between the outermost levels.
fn add_quantiles(
    (loss, covered, values): &mut (f64, usize, usize),
    levels: &[f64],
    window: &WindowForecast<'_>,
    (target, actual): (usize, &[f64]),
    std: f64,
) {
    if levels.is_empty() {
        return;
    }
    for (step, y) in actual.iter().enumerate() {
        let all = (0..levels.len()).filter_map(|level| window.level(target, level).get(step));
        let each = all.clone().zip(levels).map(|(q, tau)| {
            let error = (y - q) / std;
            (tau * error).max((tau - 1.0) * error)
        });
        *loss += each.sum::<f64>() / levels.len() as f64;
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), q| (l.min(*q), h.max(*q)));
        *covered += usize::from(low <= *y && *y <= high);
        *values += 1;
    }
}
