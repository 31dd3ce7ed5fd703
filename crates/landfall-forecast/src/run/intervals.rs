//! Prediction intervals of a run: from the errors of its forecasts of recent windows ([`conformal`](crate::data::conformal)).

use super::forecasts::window_forecasts;
use super::kinds::Weights;
use super::open::{Forecast, Run};
use super::past_windows::{Errors, PastWindow, add, last_known, place, read, rounded_up};
use super::pooled::Pooled;
use super::record::{IntervalRecord, IntervalScore};
use super::widths::{HalfWidths, SeriesWidths, around, enough, half_widths, with_spread, without_intervals};
use super::{Forecaster, RunError};
use crate::data::conformal::{IntervalSums, RecentErrors, window_limit};
use crate::data::{Baseline, Member, Panel, ScoreError, Segment, WindowForecast, WindowedPanel, baseline};
use crate::train::{Dataset, Session};
use landfall::Engine;
use std::collections::{HashMap, VecDeque};

/// Takes the forecast of a window.
type Each<'a> = dyn FnMut(WindowForecast<'_>) -> Result<(), RunError> + Send + 'a;

/// Forecasts all windows of a segment, series after series: those of a run, or those of a baseline.
pub type ForecastSource<'a> = dyn FnMut(Segment, &mut Each<'_>) -> Result<(), RunError> + 'a;

/// What intervals are made of: for each series, errors of a forecaster in windows that it was not fit on.
#[derive(Debug, Clone)]
pub struct Intervals {
    levels: Vec<f64>,
    limit: usize,
    history: Vec<Errors>,
    /// Errors of all series together, which take the place of each one's own.
    pooled: Option<Pooled>,
    non_negative: Vec<String>,
}

impl Intervals {
    /// Intervals of these levels, in percent, from the errors of the validation windows.
    ///
    /// # Errors
    /// [`RunError::TooFewErrors`]; what `source` returns.
    pub fn validated(
        source: &mut ForecastSource<'_>,
        panel: &WindowedPanel,
        levels: &[f64],
        non_negative: Vec<String>,
    ) -> Result<Self, RunError> {
        let limit = limit(panel, levels);
        let history = past_errors(source, panel, Segment::Validation, None, limit)?;
        Self { levels: levels.to_vec(), limit, history, pooled: None, non_negative }.sufficient(panel)
    }

    /// Refused unless a series, or all of them together, have as many errors as the highest level needs.
    fn sufficient(self, panel: &WindowedPanel) -> Result<Self, RunError> {
        if self.pooled.is_some() {
            return Ok(self);
        }
        let found = panel.members().iter().zip(&self.history);
        enough(found.map(|(member, errors)| (member.series.name(), errors.len())), &self.levels)?;
        Ok(self)
    }

    /// The levels, in percent.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        &self.levels
    }

    /// Adds intervals to forecasts of the test windows, which come in their order.
    #[must_use]
    pub fn rolling<'a>(&'a self, panel: &'a WindowedPanel) -> Rolling<'a> {
        let lowest = panel.columns().iter().take(panel.targets()).map(|name| self.lowest(name)).collect();
        Rolling {
            of: self,
            panel,
            lowest,
            at: None,
            recent: RecentErrors::new(self.limit),
            pending: VecDeque::new(),
            bounds: Vec::new(),
        }
    }

    /// The smallest value of a column.
    fn lowest(&self, column: &str) -> f64 {
        if self.non_negative.iter().any(|name| name == column) { 0.0 } else { f64::NEG_INFINITY }
    }

    /// Coverage, width and interval score over the test windows for each level, scaled.
    ///
    /// # Errors
    /// What `source` returns.
    pub fn score(
        &self,
        source: &mut ForecastSource<'_>,
        panel: &WindowedPanel,
    ) -> Result<Vec<IntervalScore>, RunError> {
        let mut sums = vec![IntervalSums::default(); self.levels.len()];
        let mut rolling = self.rolling(panel);
        source(Segment::Test, &mut |window| {
            rolling.window(window, |w| {
                let member = &panel.members()[w.series];
                for target in 0..panel.targets() {
                    let std = member.scaler.std()[target];
                    let actual = w.actual(&member.series, target);
                    for (k, (level, sums)) in self.levels.iter().zip(&mut sums).enumerate() {
                        let (low, high) = w.interval(target, k);
                        // A series with too few errors so far has no interval that could be scored.
                        if high.iter().any(|bound| bound.is_infinite()) {
                            continue;
                        }
                        for ((low, high), y) in low.iter().zip(high).zip(actual) {
                            sums.add(*level, (low / std, high / std), y / std);
                        }
                    }
                }
                Ok(())
            })
        })?;
        Ok(sums.iter().map(IntervalScore::from).collect())
    }

    /// The name of the baseline, and the scores of the intervals that its errors in the validation windows make; none where these are
    /// too few.
    pub(crate) fn of_baseline(
        panel: &WindowedPanel,
        levels: &[f64],
        period: usize,
    ) -> Result<(String, Vec<IntervalScore>), RunError> {
        let baseline = if period > 1 { Baseline::SeasonalNaive { period } } else { Baseline::LastValue };
        let mut naive = baseline_source(baseline, panel);
        let beside = Self::validated(&mut naive, panel, levels, Vec::new());
        let beside = match beside {
            Ok(intervals) => intervals.score(&mut naive, panel)?,
            // It has fewer windows than the run where rolling origins took validation's place, or no season before them.
            Err(
                RunError::TooFewErrors { .. }
                | RunError::Data(crate::data::DataError::Score(ScoreError::BadPeriod { .. })),
            ) => Vec::new(),
            Err(other) => return Err(other),
        };
        Ok((baseline.to_string(), beside))
    }

    /// [`Intervals::score`] beside the scores of the intervals that the baseline's errors make in the same way.
    ///
    /// # Errors
    /// What `source` returns.
    pub fn record(
        &self,
        source: &mut ForecastSource<'_>,
        panel: &WindowedPanel,
        period: usize,
    ) -> Result<Vec<IntervalRecord>, RunError> {
        let own = self.score(source, panel)?;
        let (name, beside) = Self::of_baseline(panel, &self.levels, period)?;
        let one = |(k, (level, own)): (usize, (&f64, IntervalScore))| IntervalRecord {
            level: *level,
            own,
            baseline_name: name.clone(),
            baseline: beside.get(k).copied(),
        };
        Ok(self.levels.iter().zip(own).enumerate().map(one).collect())
    }
}

/// Errors of what makes the intervals of the windows so far: those of windows whose last row lies before the first row of the
/// next forecast, so that an interval knows no value that its forecast does not know.
#[derive(Debug)]
pub struct Rolling<'a> {
    of: &'a Intervals,
    panel: &'a WindowedPanel,
    lowest: Vec<f64>,
    at: Option<usize>,
    recent: RecentErrors,
    /// The row after the last one of windows, and their errors.
    pending: VecDeque<(usize, Vec<f32>)>,
    bounds: Vec<f64>,
}

impl Rolling<'_> {
    /// Hands on the forecast of the next test window, in the units of the data, with its intervals.
    ///
    /// # Errors
    /// What `each` returns.
    pub fn window<E>(
        &mut self,
        w: WindowForecast<'_>,
        each: impl FnOnce(WindowForecast<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at != Some(w.series) {
            self.at = Some(w.series);
            self.pending.clear();
            self.recent = RecentErrors::new(self.of.limit);
            let history = self.of.history.get(w.series).into_iter().flatten();
            history.for_each(|window| self.recent.push(window.errors.clone()));
        }
        while self.pending.front().is_some_and(|(end, _)| *end <= w.start_row) {
            if let Some((_, errors)) = self.pending.pop_front() {
                self.recent.push(errors);
            }
        }
        let scaler = &self.panel.members()[w.series].scaler;
        self.bounds.clear();
        for (target, lowest) in self.lowest.iter().enumerate() {
            let std = scaler.std()[target];
            let steps = w.horizon;
            let widths = w.widths.get(target * steps..).and_then(|all| all.get(..steps)).unwrap_or_default();
            let of = |level: &f64| match &self.of.pooled {
                Some(pooled) => {
                    pooled.half_widths(*level, widths).unwrap_or_else(|| vec![f64::INFINITY; steps])
                }
                None => half_widths(&self.recent, *level, (target, steps), std),
            };
            let bounds = self.of.levels.iter().map(|level| around(w.of(target), &of(level), (*lowest, std)));
            for [low, high] in bounds {
                self.bounds.extend(low);
                self.bounds.extend(high);
            }
        }
        let errors = errors(&w, self.panel);
        each(WindowForecast { bounds: &self.bounds, ..w })?;
        self.pending.push_back((w.start_row + w.horizon, errors));
        Ok(())
    }
}

/// The absolute scaled errors of a window's point forecast.
fn errors(w: &WindowForecast<'_>, panel: &WindowedPanel) -> Vec<f32> {
    let member = &panel.members()[w.series];
    let of = |target: usize| {
        let std = member.scaler.std()[target];
        let pairs = w.actual(&member.series, target).iter().zip(w.of(target));
        pairs.map(move |(y, f)| rounded_up((y - f).abs() / std))
    };
    (0..panel.targets()).flat_map(of).collect()
}

/// The last windows of a segment that end with a known row, for each series.
fn past_errors(
    source: &mut ForecastSource<'_>,
    panel: &WindowedPanel,
    segment: Segment,
    known: Option<&Panel>,
    limit: usize,
) -> Result<Vec<Errors>, RunError> {
    let until: Vec<f64> = panel.members().iter().map(|m| last_known(known, m.series.name())).collect();
    let mut all = vec![Errors::new(); panel.members().len()];
    source(segment, &mut |w| {
        let last = place(&panel.members()[w.series].series, w.start_row + w.horizon - 1);
        if last <= until[w.series] {
            add(&mut all[w.series], PastWindow { last, errors: errors(&w, panel) }, limit);
        }
        Ok(())
    })?;
    Ok(all)
}

/// The number of windows of each series whose errors are kept.
pub(super) fn limit(panel: &WindowedPanel, levels: &[f64]) -> usize {
    let horizon = panel.members().first().map_or(1, |m| m.segments.windows(Segment::Test).horizon());
    window_limit(horizon, panel.members().len() * panel.targets() * horizon, levels)
}

/// The forecasts of a baseline.
pub fn baseline_source(
    of: Baseline,
    panel: &WindowedPanel,
) -> impl FnMut(Segment, &mut Each<'_>) -> Result<(), RunError> {
    move |segment, each| {
        let parts: Vec<_> = panel.parts(segment).into_iter().filter(|p| p.windows.count() > 0).collect();
        if parts.len() < panel.members().len() {
            // A series without such windows; places of the others would shift.
            return Ok(());
        }
        baseline::forecasts(of, &parts, panel.targets(), each)
    }
}

/// The forecasts of a run's session.
pub fn run_source<'a>(
    session: &'a mut Session,
    panel: &'a WindowedPanel,
    forecaster: Option<&'a Forecaster>,
) -> impl FnMut(Segment, &mut Each<'_>) -> Result<(), RunError> + 'a {
    move |segment, each| window_forecasts(session, panel, segment, forecaster, each)
}

impl Run {
    /// The levels of the intervals that are asked for, in percent, else those that the run was trained with.
    ///
    /// # Errors
    /// As [`Settings::resolve`](super::Settings::resolve) of a level that is not between 0 and 100.
    pub fn interval_levels(&self, given: Option<&[f64]>) -> Result<Vec<f64>, RunError> {
        let given = given.or(self.resolved().settings.interval.as_deref()).unwrap_or_default();
        super::resolve::interval_levels(given)?;
        Ok(given.to_vec())
    }

    /// Refuses levels that need more windows than any series has before its test rows; says which have too few.
    ///
    /// # Errors
    /// [`RunError::TooFewErrors`]; [`RunError::NoErrors`].
    pub fn enough_windows(&self, panel: &WindowedPanel, levels: &[f64]) -> Result<Option<String>, RunError> {
        self.enough(panel, &[Segment::Validation], None, levels)
    }

    /// Refuses levels that need more windows than any series has before its end or, with `known`, before the end of its series
    /// there; says which have too few.
    ///
    /// # Errors
    /// [`RunError::TooFewErrors`]; [`RunError::NoErrors`].
    pub fn enough_windows_ahead(
        &self,
        panel: WindowedPanel,
        known: Option<&Panel>,
        levels: &[f64],
    ) -> Result<Option<String>, RunError> {
        self.enough(&panel.to_the_end()?, &[Segment::Validation, Segment::Test], known, levels)
    }

    fn enough(
        &self,
        panel: &WindowedPanel,
        segments: &[Segment],
        known: Option<&Panel>,
        levels: &[f64],
    ) -> Result<Option<String>, RunError> {
        let pools = !levels.is_empty() && Pooled::is_kept(self.path());
        let kept = match self.keeps_errors() && !levels.is_empty() && !pools {
            true => Some(read(self.path(), panel, known)?),
            false => None,
        };
        let mut all = Vec::with_capacity(panel.members().len());
        for (i, m) in panel.members().iter().enumerate() {
            let until = last_known(known, m.series.name());
            if until == f64::NEG_INFINITY {
                continue;
            }
            let ended = |segment: &Segment| {
                let windows = m.segments.windows(*segment);
                windows.starts().filter(|s| place(&m.series, windows.target(*s).end - 1) <= until).count()
            };
            let found = |segment: &Segment| match (&kept, segment) {
                (Some(kept), Segment::Validation) => kept[i].len(),
                _ => ended(segment),
            };
            all.push((m.series.name(), segments.iter().map(found).sum()));
        }
        if self.has_spread() {
            let pooled = self.pooled(levels)?.is_some();
            return Ok(if pooled { None } else { with_spread(all.into_iter(), levels) });
        }
        Ok(without_intervals(&enough(all, levels)?, levels))
    }

    /// Whether each forecast of it has a spread of its own, so that intervals need no errors.
    #[must_use]
    pub fn has_spread(&self) -> bool {
        self.forecaster().is_some_and(|f| f.ensemble)
    }

    /// The errors of all its series together, where it keeps enough of them for these levels.
    fn pooled(&self, levels: &[f64]) -> Result<Option<Pooled>, RunError> {
        let kept = if self.has_spread() { Pooled::read(self.path())? } else { None };
        Ok(kept.filter(|pooled| pooled.are_enough(levels)))
    }

    /// Whether its weights were fit on validation rows in the end.
    fn keeps_errors(&self) -> bool {
        self.forecaster().is_some_and(|f| f.refit || f.ridge.is_some())
    }

    /// What the run's intervals of these levels are made of before the test windows: the errors in the validation windows; of
    /// a run whose weights were fit on these too in the end, the errors that were made before that. None where these are too few
    /// and the intervals of later forecasts are of their own spread ([`Run::has_spread`]), which past windows do not show.
    ///
    /// # Errors
    /// [`RunError::TooFewErrors`]; [`RunError::NoErrors`] of a run that kept none; a device fault.
    pub fn intervals(
        &self,
        session: &mut Session,
        panel: &WindowedPanel,
        levels: &[f64],
    ) -> Result<Option<Intervals>, RunError> {
        match self.errors_before_test(session, panel, None, levels)?.sufficient(panel) {
            Err(RunError::TooFewErrors { .. }) if self.has_spread() => Ok(None),
            made => made.map(Some),
        }
    }

    fn errors_before_test(
        &self,
        session: &mut Session,
        panel: &WindowedPanel,
        known: Option<&Panel>,
        levels: &[f64],
    ) -> Result<Intervals, RunError> {
        let (limit, forecaster) = (limit(panel, levels), self.forecaster());
        let pooled = self.pooled(levels)?;
        let history = if Pooled::is_kept(self.path()) {
            vec![Errors::new(); panel.members().len()]
        } else if self.keeps_errors() {
            read(self.path(), panel, known)?
        } else {
            let mut source = run_source(session, panel, forecaster);
            past_errors(&mut source, panel, Segment::Validation, known, limit)?
        };
        let non_negative = forecaster.map(|f| f.non_negative.clone()).unwrap_or_default();
        Ok(Intervals { levels: levels.to_vec(), limit, history, pooled, non_negative })
    }

    /// Adds intervals of these levels to forecasts of the rows after the last ones of a panel, or of its first rows `known`.
    /// Their errors are those of the most recent windows, up to the last known row; the panel is divided by all its rows, so
    /// that no window is one that the run trained on.
    ///
    /// # Errors
    /// [`RunError::TooFewErrors`]; series that are too short for the run's split; as [`Run::intervals`].
    pub fn add_intervals(
        &self,
        engine: &Engine,
        weights: Weights,
        (panel, known): (Panel, Option<&Panel>),
        levels: &[f64],
        forecasts: &mut [Forecast],
    ) -> Result<(), RunError> {
        let widths = match self.windowed(panel) {
            Err(RunError::Untested { .. }) if self.has_spread() => self.without_errors(levels, None),
            windowed => self.half_widths(engine, weights, (windowed?, known), levels)?,
        };
        forecasts.iter_mut().for_each(|forecast| widths.add_to(forecast));
        Ok(())
    }

    /// As [`Run::add_intervals`], of a panel that is divided.
    ///
    /// # Errors
    /// As [`Run::add_intervals`].
    pub fn intervals_after<'f>(
        &self,
        engine: &Engine,
        weights: Weights,
        panel: &WindowedPanel,
        levels: &[f64],
        forecasts: impl IntoIterator<Item = &'f mut Forecast>,
    ) -> Result<(), RunError> {
        let widths = self.half_widths(engine, weights, (panel.clone(), None), levels)?;
        forecasts.into_iter().for_each(|forecast| widths.add_to(forecast));
        Ok(())
    }

    /// What intervals are made of without errors of each series: of each forecast's own spread, scaled by what is `pooled`.
    fn without_errors(&self, levels: &[f64], pooled: Option<Pooled>) -> HalfWidths {
        let lowest = |column: &String| self.forecaster().map_or(f64::NEG_INFINITY, |f| f.lowest(column));
        let lowest = self.columns().iter().take(self.targets()).map(lowest).collect();
        HalfWidths { levels: levels.to_vec(), lowest, series: HashMap::new(), pooled, only: false }
    }

    /// Half the widths of intervals of these levels in percent around forecasts of the rows after the last ones of a panel, which
    /// is divided, or of its first rows `known`: the errors are those of the most recent windows, up to the last known row.
    ///
    /// # Errors
    /// As [`Run::intervals`], but for [`RunError::TooFewErrors`], which [`HalfWidths::add_to`] says.
    pub fn half_widths(
        &self,
        engine: &Engine,
        weights: Weights,
        (panel, known): (WindowedPanel, Option<&Panel>),
        levels: &[f64],
    ) -> Result<HalfWidths, RunError> {
        if let Some(pooled) = self.pooled(levels)? {
            return Ok(self.without_errors(levels, Some(pooled)));
        }
        let panel = &panel.to_the_end()?;
        let mut session = self.session(engine, &Dataset::windowed(panel)?, weights)?;
        let before = self.errors_before_test(&mut session, panel, known, levels)?;
        let mut source = run_source(&mut session, panel, self.forecaster());
        let after = past_errors(&mut source, panel, Segment::Test, known, before.limit)?;
        drop(source);
        let (targets, horizon) = (panel.targets(), self.resolved().network.horizon());
        let lowest = panel.columns().iter().take(targets).map(|column| before.lowest(column)).collect();
        let of = |(i, member): (usize, &Member)| {
            let mut recent = RecentErrors::new(before.limit);
            let windows = before.history[i].iter().chain(&after[i]);
            let found = windows.map(|window| recent.push(window.errors.clone())).count();
            let column = |(target, std): (usize, &f64)| {
                levels.iter().map(|level| half_widths(&recent, *level, (target, horizon), *std)).collect()
            };
            let half = member.scaler.std().iter().take(targets).enumerate().map(column).collect();
            let std = member.scaler.std().iter().take(targets).copied().collect();
            (member.series.name().to_owned(), SeriesWidths { found, half, std })
        };
        let series = panel.members().iter().enumerate().map(of).collect();
        let only = self.scalers().len() == 1;
        Ok(HalfWidths { levels: levels.to_vec(), lowest, series, pooled: None, only })
    }
}
