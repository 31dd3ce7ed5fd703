//! What a run reports: lines of `metrics.jsonl`.

use crate::choice::Metric;
use crate::data::conformal::IntervalSums;
use crate::data::{ColumnScore, Member, Metrics, QuantileScores, Scores, Segment, TokenNames, WindowedPanel};
use crate::train::{Evaluation, StepRecord};
use serde::{Deserialize, Serialize};

/// One logged step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepLine {
    /// Number of the step, from 1.
    pub step: usize,
    /// Its epoch, from 1.
    pub epoch: usize,
    /// Loss of its batch, before its update.
    pub loss: f64,
    /// Global L2 norm of the gradients, before clipping.
    pub grad_norm: f64,
    /// Learning rate of its update.
    pub lr: f64,
}

impl StepLine {
    /// The line of a step of a run with this many steps an epoch.
    #[must_use]
    pub fn new(r: &StepRecord, steps_per_epoch: usize) -> Self {
        let epoch = (r.step.max(1) - 1) / steps_per_epoch.max(1) + 1;
        Self { step: r.step, epoch, loss: r.loss, grad_norm: r.grad_norm, lr: r.lr }
    }
}

/// A line of the metrics whose numbers are also drawn over the steps.
pub trait Scalars: Serialize {
    /// The step, and tags such as `train/loss` with their values.
    fn scalars(&self) -> (usize, Vec<(String, f64)>);
}

impl Scalars for StepLine {
    fn scalars(&self) -> (usize, Vec<(String, f64)>) {
        let all = [("loss", self.loss), ("grad_norm", self.grad_norm), ("learning_rate", self.lr)];
        (self.step, all.map(|(name, value)| (format!("train/{name}"), value)).to_vec())
    }
}

impl Scalars for EvaluationRecord {
    fn scalars(&self) -> (usize, Vec<(String, f64)>) {
        let of = self.forecaster.as_ref().map_or(self.split.as_str(), |_| "forecaster");
        let m = self.metrics.unwrap_or_default();
        let all = [
            ("mse", Some(self.mse)),
            ("mae", Some(self.mae)),
            ("rmse", m.rmse),
            ("mase", m.mase),
            ("smape", m.smape),
            ("r2", m.r2),
            ("quantile_loss", self.quantiles.map(|q| q.pinball)),
            ("coverage", self.quantiles.map(|q| q.coverage)),
            ("nll", self.nll),
            ("crps", self.quantile_scores.as_ref().map(|q| q.crps)),
            ("wql", self.quantile_scores.as_ref().and_then(|q| q.wql)),
            ("cross_entropy", self.classes.map(|c| c.cross_entropy)),
            ("accuracy", self.classes.map(|c| c.accuracy)),
        ];
        let tagged = |(name, value): (&str, Option<f64>)| Some((format!("{of}/{name}"), value?));
        (self.step, all.into_iter().filter_map(tagged).collect())
    }
}

/// Errors of one column in the units of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnRecord {
    /// Its name.
    pub name: String,
    /// Mean squared error.
    pub mse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// Further errors, of the test windows.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
}

/// Errors of a forecast that needs no training, over the same windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineRecord {
    /// Its name: `last value`, or `seasonal naive (24)` with its period.
    pub name: String,
    /// Mean squared error, scaled.
    pub mse: f64,
    /// Mean absolute error, scaled.
    pub mae: f64,
    /// Further errors.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// Errors of one series over all its windows, scaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesRecord {
    /// Its name.
    pub name: String,
    /// Its windows.
    pub windows: usize,
    /// Mean squared error.
    pub mse: f64,
    /// Mean absolute error.
    pub mae: f64,
}

/// One evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRecord {
    /// Updates done before it.
    pub step: usize,
    /// The segment.
    pub split: String,
    /// What was chosen to forecast with, where these are its errors and not those of the trained network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecaster: Option<String>,
    /// Mean squared error over all windows, scaled.
    pub mse: f64,
    /// Mean absolute error over all windows, scaled.
    pub mae: f64,
    /// The same over whole batches, as the paper scores.
    pub mse_drop_last: Option<f64>,
    /// The same over whole batches.
    pub mae_drop_last: Option<f64>,
    /// Number of windows.
    pub windows: usize,
    /// Number of windows in whole batches.
    pub windows_drop_last: usize,
    /// Scores of the quantiles, where there are any; the errors above are the point forecast's.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<QuantileRecord>,
    /// Further scores of the quantiles, of the test windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile_scores: Option<QuantileScores>,
    /// Scores of the intervals that were asked for, of the test windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<IntervalRecord>,
    /// Mean negative log-likelihood of the scaled values, where a distribution is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nll: Option<f64>,
    /// Scores of classes, where they are predicted; the errors above are those of their probabilities.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassRecord>,
    /// Further errors, of the test windows.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// Errors of the baselines, of the test windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<BaselineRecord>,
    /// Errors of each column that is predicted, all windows, in the units of the data.
    pub columns: Vec<ColumnRecord>,
    /// Errors of each series, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<SeriesRecord>,
}

/// Scores of a forecast of quantiles, over all windows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantileRecord {
    /// Mean quantile loss over the levels, scaled.
    pub pinball: f64,
    /// Share of the values between the lowest and the highest quantile.
    pub coverage: f64,
    /// The share that there should be.
    pub coverage_nominal: f64,
}

/// Scores of intervals over all values of the test windows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IntervalScore {
    /// Share of the values within their interval.
    pub coverage: f64,
    /// Mean width, scaled.
    pub width: f64,
    /// Mean interval score ([`IntervalSums::score`]), scaled.
    pub interval_score: f64,
}

impl From<&IntervalSums> for IntervalScore {
    fn from(sums: &IntervalSums) -> Self {
        Self { coverage: sums.coverage(), width: sums.width(), interval_score: sums.score() }
    }
}

/// Scores of the intervals of one level, beside those of a baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalRecord {
    /// Percent of the values that should lie within.
    pub level: f64,
    /// Those of the forecast.
    #[serde(flatten)]
    pub own: IntervalScore,
    /// The seasonal naive forecast with its period; last value where there is no season.
    pub baseline_name: String,
    /// Those of intervals that are made of the baseline's errors in the same way, where it has as many.
    pub baseline: Option<IntervalScore>,
}

impl IntervalRecord {
    /// Why no scores of the baseline stand beside it, where there are none.
    #[must_use]
    pub fn no_baseline(&self) -> String {
        format!(
            "No intervals of {} stand beside those of the forecast: validation has too few windows for them, or no season lies before them.",
            self.baseline_name
        )
    }
}

/// Scores of a prediction of classes, over all tokens of all samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassRecord {
    /// Mean negative logarithm of the class's probability, in nats.
    pub cross_entropy: f64,
    /// Share of the tokens whose class has the largest probability.
    pub accuracy: f64,
}

/// Names of what is predicted, and the units of the data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Units {
    /// Names of the predicted columns.
    pub names: Vec<String>,
    /// Each series' name, and the units of the data in one scaled unit of each of those columns.
    pub series: Vec<(String, Vec<f64>)>,
}

impl Units {
    /// Those of a panel.
    #[must_use]
    pub fn of(panel: &WindowedPanel) -> Self {
        let targets = panel.targets();
        let of =
            |m: &Member| (m.series.name().to_owned(), m.scaler.std().iter().copied().take(targets).collect());
        let names = panel.columns().iter().take(targets).cloned().collect();
        Self { names, series: panel.members().iter().map(of).collect() }
    }

    /// Those of samples with classes: a probability of each class for each token.
    #[must_use]
    pub fn tokens(names: &TokenNames) -> Self {
        let series = vec![("samples".to_owned(), vec![1.0; names.tokens.len()])];
        Self { names: names.tokens.clone(), series }
    }

    /// Those of windows with labels, which are not scaled.
    #[must_use]
    pub fn labels() -> Self {
        Self { names: vec!["label".to_owned()], series: vec![("samples".to_owned(), vec![1.0])] }
    }
}

/// Of intervals that hold another share of the test values than they should, by this many points, a person is told.
const POINTS: f64 = 10.0;

/// An error beside that of the better baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BesideBaseline<'a> {
    /// Which error: MASE, or the squared one.
    pub metric: Metric,
    /// The forecast's.
    pub own: f64,
    /// The better baseline.
    pub baseline: &'a BaselineRecord,
    /// Its error.
    pub other: f64,
}

impl EvaluationRecord {
    /// The error that a choice was by, beside that of the better baseline: MASE where that chose and is known, else the squared
    /// error. One far series of many weighs little in the first.
    #[must_use]
    pub fn beside_baseline(&self, chosen_by: Metric) -> Option<BesideBaseline<'_>> {
        let mase = self.metrics.and_then(|m| m.mase).filter(|_| chosen_by == Metric::Mase);
        let error = |b: &BaselineRecord| match mase {
            Some(_) => b.metrics.mase.unwrap_or(f64::INFINITY),
            None => b.mse,
        };
        let baseline = self.baselines.iter().min_by(|a, b| error(a).total_cmp(&error(b)))?;
        let (metric, own) = mase.map_or((Metric::Mse, self.mse), |mase| (Metric::Mase, mase));
        Some(BesideBaseline { metric, own, baseline, other: error(baseline) })
    }

    /// That intervals are too wide or too narrow on the windows that were scored, a sentence for each such level; of those that are made
    /// of a forecaster's errors, and are no quantiles of its own, also why.
    #[must_use]
    pub fn coverage_remarks(&self, of_errors: bool) -> Vec<String> {
        let of = |i: &IntervalRecord| {
            let (level, found) = (i.level, 100.0 * i.own.coverage);
            let (what, why) = match found - level {
                more if more >= POINTS.min((100.0 - level) * 0.75) => ("wider", "larger"),
                less if less <= -POINTS => ("narrower", "smaller"),
                _ => return None,
            };
            let why = match of_errors {
                true => {
                    format!(", since the errors before the test rows, of which they are made, were {why}")
                }
                false => String::new(),
            };
            Some(format!(
                "Intervals of {level} % hold {found:.1} % of the test values: they are {what} than they should be{why}."
            ))
        };
        self.intervals.iter().filter_map(of).collect()
    }

    /// What the best weights have least of: the cross-entropy where classes are predicted, the negative log-likelihood where a
    /// distribution is, else the mean squared error.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.classes.map(|c| c.cross_entropy).or(self.nll).unwrap_or(self.mse)
    }

    /// The record of forecasts that no session made, of a segment, with the errors of each series where there are several.
    #[must_use]
    pub fn of_scores(scores: Scores, segment: Segment, series: Vec<SeriesRecord>) -> Self {
        let column = |c: ColumnScore| ColumnRecord { name: c.name, mse: c.mse, mae: c.mae, metrics: None };
        Self {
            step: 0,
            split: segment.to_string(),
            forecaster: None,
            mse: scores.mse,
            mae: scores.mae,
            mse_drop_last: scores.mse_drop_last,
            mae_drop_last: scores.mae_drop_last,
            windows: scores.windows,
            windows_drop_last: scores.windows_drop_last,
            quantiles: None,
            quantile_scores: None,
            nll: None,
            intervals: Vec::new(),
            classes: None,
            metrics: None,
            baselines: Vec::new(),
            columns: scores.per_column.into_iter().map(column).collect(),
            series,
        }
    }

    /// The record of an evaluation. Scaling is affine, so an error in the data's units is the scaled one times the
    /// standard deviation of its column and series.
    #[must_use]
    pub fn new(step: usize, segment: Segment, e: &Evaluation, units: &Units) -> Self {
        let (mse, mae) = e.errors();
        let drop_last = e.errors_drop_last();
        let n = (e.windows * e.horizon).max(1) as f64;
        let column = |c: usize| {
            let own = |sums: &[f64], power: i32| {
                let sums = sums.chunks_exact(e.targets).zip(&units.series);
                sums.map(|(of, (_, std))| of[c] * std[c].powi(power)).sum::<f64>() / n
            };
            ColumnRecord {
                name: units.names[c].clone(),
                mse: own(&e.squared, 2),
                mae: own(&e.absolute, 1),
                metrics: None,
            }
        };
        let series = |(i, (name, _)): (usize, &(String, Vec<f64>))| {
            let (mse, mae) = e.errors_of(i);
            SeriesRecord { name: name.clone(), windows: e.series[i], mse, mae }
        };
        let several = units.series.len() > 1;
        Self {
            step,
            split: segment.to_string(),
            forecaster: None,
            mse,
            mae,
            mse_drop_last: drop_last.map(|d| d.0),
            mae_drop_last: drop_last.map(|d| d.1),
            windows: e.windows,
            windows_drop_last: e.windows_drop_last,
            quantiles: e.quantiles.map(|q| QuantileRecord {
                pinball: q.pinball,
                coverage: q.coverage,
                coverage_nominal: q.nominal,
            }),
            quantile_scores: None,
            nll: e.nll,
            intervals: Vec::new(),
            classes: e.classes.map(|c| ClassRecord { cross_entropy: c.cross_entropy, accuracy: c.accuracy }),
            metrics: None,
            baselines: Vec::new(),
            columns: (0..e.targets).map(column).collect(),
            series: units
                .series
                .iter()
                .enumerate()
                .filter(|(i, _)| several && e.series[*i] > 0)
                .map(series)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_compared_by_the_error_that_chose_it() {
        let metrics = |mase| Metrics { rmse: None, mase: Some(mase), smape: None, r2: None };
        let baseline = |name: &str, mse, mase| BaselineRecord {
            name: name.to_owned(),
            mse,
            mae: 1.0,
            metrics: metrics(mase),
        };
        let text = r#"{"step":0,"split":"test","mse":9.0,"mae":1.0,"mse_drop_last":9.0,"mae_drop_last":1.0,"windows":1,"windows_drop_last":1,"columns":[]}"#;
        let mut record: EvaluationRecord = serde_json::from_str(text).expect("a record");
        assert_eq!(record.beside_baseline(Metric::Mase), None);
        record.metrics = Some(metrics(0.8));
        record.baselines = vec![baseline("a", 3.0, 1.6), baseline("b", 11.0, 1.5)];
        let found = |metric| {
            let c = record.beside_baseline(metric).expect("baselines");
            (c.metric, c.own, c.baseline.name.as_str(), c.other)
        };
        assert_eq!(found(Metric::Mase), (Metric::Mase, 0.8, "b", 1.5));
        assert_eq!(found(Metric::Rmsse), (Metric::Mse, 9.0, "a", 3.0));
    }
}
