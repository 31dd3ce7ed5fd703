//! RMSE, MASE, sMAPE and R² of the windows of a segment, as a rule of test, of a run's forecasts and of the baselines.

use super::intervals::{Intervals, run_source};
use super::record::{BaselineRecord, EvaluationRecord, IntervalRecord};
use super::{Forecaster, RunError, window_forecasts};
use crate::data::{
    Baseline, DataError, MetricSums, QuantileSums, Segment, WindowForecast, WindowedPanel, baseline,
};
use crate::train::Session;
use std::sync::Arc;

/// What the forecasts of a segment's windows, as a rule of the test windows, are scored on.
#[derive(Debug, Clone, PartialEq)]
pub struct TestScoring {
    /// The series.
    pub panel: Arc<WindowedPanel>,
    /// Seasonal period in rows: of the seasonal naive forecast, and of the scale of MASE.
    pub period: usize,
    /// The segment.
    pub segment: Segment,
}

/// Empty sums for the forecasts of a segment's windows.
pub(crate) fn sums(panel: &WindowedPanel, segment: Segment, period: usize) -> MetricSums<'_> {
    let training: Vec<_> = panel.members().iter().map(|m| m.segments.rows(Segment::Train)).collect();
    MetricSums::new(&panel.parts(segment), &training, panel.targets(), period)
}

/// Errors of the last value and, where there is a season and a row a season before the first row that is
/// forecast, of the seasonal naive forecast, over a segment's windows.
///
/// # Errors
/// As [`baseline::score`].
pub(crate) fn baselines(
    panel: &WindowedPanel,
    segment: Segment,
    period: usize,
) -> Result<Vec<BaselineRecord>, DataError> {
    let parts = panel.parts(segment);
    let history = parts.iter().map(|part| part.windows.target(part.windows.base()).start).min();
    let mut all = vec![Baseline::LastValue];
    if period > 1 && history.is_some_and(|history| period <= history) {
        all.push(Baseline::SeasonalNaive { period });
    }
    let score = |of: Baseline| {
        let s = baseline::score(of, &parts, panel.targets(), 1)?;
        let (mut metrics, _) = of_baseline(panel, segment, period, of)?.finish();
        metrics.rmse = Some(s.mse.sqrt()).filter(|rmse| rmse.is_finite());
        Ok(BaselineRecord { name: of.to_string(), mse: s.mse, mae: s.mae, metrics })
    };
    all.into_iter().map(score).collect()
}

/// The sums of a baseline's forecasts of a segment's windows.
fn of_baseline(
    panel: &WindowedPanel,
    segment: Segment,
    period: usize,
    of: Baseline,
) -> Result<MetricSums<'_>, DataError> {
    let mut sums = sums(panel, segment, period);
    baseline::forecasts(of, &panel.parts(segment), panel.targets(), |window| {
        sums.add(&window);
        Ok::<(), DataError>(())
    })?;
    Ok(sums)
}

impl TestScoring {
    fn sums(&self) -> MetricSums<'_> {
        sums(&self.panel, self.segment, self.period)
    }

    /// Adds the further errors of the session's forecasts, and those of the baselines, to a record of the segment;
    /// others stay as they are.
    ///
    /// # Errors
    /// A device fault; a value that cannot be scaled.
    pub fn add_to(
        &self,
        record: &mut EvaluationRecord,
        session: &mut Session,
        forecaster: Option<&Forecaster>,
    ) -> Result<(), RunError> {
        if record.split != self.segment.to_string() {
            return Ok(());
        }
        self.add_and_see(record, session, forecaster, |_| {})
    }

    /// As [`TestScoring::add_to`]; `see` gets each forecast.
    pub(crate) fn add_and_see(
        &self,
        record: &mut EvaluationRecord,
        session: &mut Session,
        forecaster: Option<&Forecaster>,
        mut see: impl FnMut(&WindowForecast<'_>) + Send,
    ) -> Result<(), RunError> {
        let mut sums = self.sums();
        let levels = session.options().loss.levels().to_vec();
        let mut quantiles = QuantileSums::new(&self.panel, &levels);
        window_forecasts(session, &self.panel, self.segment, forecaster, |window| {
            sums.add(&window);
            quantiles.add(&window);
            see(&window);
            Ok::<(), RunError>(())
        })?;
        put(record, &sums);
        record.quantile_scores = quantiles.finish();
        record.baselines = self.baselines()?;
        Ok(())
    }

    /// The scores of intervals of these levels, in percent, around the forecasts of the session's network, over the test
    /// windows.
    ///
    /// # Errors
    /// [`RunError::TooFewErrors`]; a device fault.
    pub(super) fn intervals(
        &self,
        session: &mut Session,
        levels: &[f64],
    ) -> Result<Vec<IntervalRecord>, RunError> {
        let mut source = run_source(session, &self.panel, None);
        let made = Intervals::validated(&mut source, &self.panel, levels, Vec::new())?;
        made.record(&mut source, &self.panel, self.period)
    }

    /// Adds the further errors of a baseline to its record.
    ///
    /// # Errors
    /// As [`baseline::forecasts`].
    pub fn add_baseline_to(&self, record: &mut EvaluationRecord, of: Baseline) -> Result<(), DataError> {
        put(record, &of_baseline(&self.panel, self.segment, self.period, of)?);
        Ok(())
    }

    /// Errors of the baselines: the last value and, where there is a season, the seasonal naive forecast.
    ///
    /// # Errors
    /// As [`baseline::score`].
    pub fn baselines(&self) -> Result<Vec<BaselineRecord>, DataError> {
        baselines(&self.panel, self.segment, self.period)
    }
}

/// Puts metrics into a record. The RMSE is the root of the MSE beside it, which is of the values as they are scaled in f32.
pub(crate) fn put(record: &mut EvaluationRecord, sums: &MetricSums<'_>) {
    let root = |mse: f64| Some(mse.sqrt()).filter(|rmse| rmse.is_finite());
    let (mut pooled, columns) = sums.finish();
    pooled.rmse = root(record.mse);
    record.metrics = Some(pooled);
    for (column, mut metrics) in record.columns.iter_mut().zip(columns) {
        metrics.rmse = root(column.mse);
        column.metrics = Some(metrics);
    }
}
