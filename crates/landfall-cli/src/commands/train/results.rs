//! What a run that finished says.

use crate::commands::{
    METRICS, class_rows, interval_rows, metric_cells, nll_line, no_baseline_intervals, quantile_line,
    quantile_scores_line, series_rows,
};
use crate::error::CliError;
use crate::output::{self, digits};
use landfall_forecast::run::{BaselineRecord, EvaluationRecord, Resolved, Run};
use landfall_forecast::training::{Chosen, Comparison, Finished};
use landfall_train::data::synthetic::WalkData;
use landfall_train::data::{Metrics, Segment, count};
use std::path::Path;

/// A run that finished, and what its results are compared with.
pub(crate) struct Results<'a> {
    resolved: &'a Resolved,
    records: &'a [EvaluationRecord],
    simple: &'a [BaselineRecord],
    comparison: &'a Comparison,
    /// What the default recipe chose.
    chosen: Option<&'a Chosen>,
    /// What is to be known of them first.
    verdict: Vec<String>,
    path: &'a Path,
}

impl<'a> Results<'a> {
    /// Those of a run in this directory.
    pub(crate) fn of(finished: &'a Finished, path: &'a Path) -> Self {
        let (Finished { resolved, comparison, chosen, .. }, records) = (finished, finished.records());
        let simple = records.last().map_or(&[][..], |r| &r.baselines);
        Self {
            resolved,
            records,
            simple,
            comparison,
            chosen: chosen.as_ref(),
            verdict: finished.verdict(),
            path,
        }
    }

    /// Prints the scores beside those of the baselines, and where the run is.
    pub(crate) fn print(&self) -> Result<(), CliError> {
        let Some(last) = self.records.last() else { return self.untested() };
        let own = self.resolved.settings.model.filter(|_| last.step == 0 && self.chosen.is_none());
        let preset = self.resolved.settings.preset.as_deref().unwrap_or_default();
        let name = own.map_or(preset, |kind| kind.name());
        if let (Some(c), Comparison::Classes(known)) = (&last.classes, self.comparison) {
            let mut rows = class_rows(name, last, c);
            rows.extend(known.scores().map(|(name, accuracy)| vec![name.to_owned(), digits(accuracy)]));
            output::line(&format!("\n{}\n", output::table(&rows)))?;
            self.saved()?;
            return output::line(&format!(
                "predict with: landfall predict {} --data F.csv",
                self.path.display()
            ));
        }
        output::line("")?;
        for line in &self.verdict {
            output::line(line)?;
        }
        output::line(&format!("{}\n", output::table(&self.rows(name, last))))?;
        if last.split == Segment::Train.to_string() {
            output::line("These are the training windows: this benchmark holds none out.")?;
        } else if let (Some(mse), Some(mae), None) = (last.mse_drop_last, last.mae_drop_last, self.chosen) {
            output::line(&format!(
                "Without the last partial batch ({} windows): MSE {}, MAE {}",
                last.windows_drop_last,
                digits(mse),
                digits(mae)
            ))?;
        }
        let units = self.resolved.units();
        let quantiles = [
            last.quantiles.map(|q| quantile_line(&q)),
            last.nll.map(|nll| nll_line(nll, units)),
            last.quantile_scores.as_ref().map(|q| quantile_scores_line(q, units)),
        ];
        for line in quantiles.iter().flatten() {
            output::line(line)?;
        }
        // A blank line stands before each table, and behind the last; the first may have one of the scores before it.
        let partial = last.mse_drop_last.is_some() && self.chosen.is_none();
        let mut gap = if partial || quantiles.iter().any(Option::is_some) { "\n" } else { "" };
        let intervals = (!last.intervals.is_empty()).then(|| interval_rows("the forecast", last, units));
        let series = (!last.series.is_empty()).then(|| series_rows(last, units));
        for rows in intervals.iter().chain(&series) {
            output::line(&format!("{gap}{}\n", output::table(rows)))?;
            gap = "";
        }
        for remark in last.coverage_remarks(true) {
            output::line(&format!("{remark}\n"))?;
        }
        if let Some(why) = no_baseline_intervals(last) {
            output::line(&format!("{why}\n"))?;
        }
        self.saved()?;
        if matches!(self.comparison, Comparison::Series(_)) {
            self.forecast_with()?;
        }
        Ok(())
    }

    /// Prints what a run without a test says.
    fn untested(&self) -> Result<(), CliError> {
        if self.chosen.is_none() {
            return Ok(());
        }
        output::line("")?;
        self.verdict.iter().try_for_each(|line| output::line(line))?;
        self.saved()?;
        self.forecast_with()
    }

    fn forecast_with(&self) -> Result<(), CliError> {
        let future = if Run::open(self.path)?.needs_future() { " --future FILE" } else { "" };
        output::line(&format!("Forecast with: landfall forecast {}{future}", self.path.display()))
    }

    /// The scores as a table's rows: the forecast first, then its network alone, then the baselines.
    fn rows(&self, name: &str, last: &EvaluationRecord) -> Vec<Vec<String>> {
        let head =
            format!("{}, {}", count(last.windows, &format!("{} window", last.split)), self.resolved.units());
        let scored = last.metrics.is_some();
        let cells = |all: [String; 4]| all.into_iter().filter(move |_| scored);
        let mut rows = vec![[&head, "MSE", "MAE"].map(str::to_owned).to_vec()];
        rows[0].extend(cells(METRICS.map(str::to_owned)));
        let mut row = |name: &str, mse: f64, mae: f64, metrics: Option<&Metrics>| {
            let mut row = vec![name.to_owned(), digits(mse), digits(mae)];
            row.extend(cells(metric_cells(metrics)));
            rows.push(row);
        };
        match self.chosen {
            None => row(name, last.mse, last.mae, last.metrics.as_ref()),
            Some(c) => {
                row(&c.choice.winner.name, last.mse, last.mae, last.metrics.as_ref());
                let network = c.tested.as_ref().map(|tested| &tested.network);
                let beside = c.choice.forecaster.share != 1.0 && self.resolved.has_networks();
                if let Some(network) = network.filter(|_| beside) {
                    let name = format!("{} alone", c.choice.forecaster.network.name());
                    row(&name, network.mse, network.mae, network.metrics.as_ref());
                }
            }
        }
        let won = self.chosen.map(|c| c.choice.winner.name.as_str());
        for s in self.simple.iter().filter(|s| won != Some(s.name.as_str())) {
            row(&s.name, s.mse, s.mae, Some(&s.metrics));
        }
        if let Comparison::Labels(walk) = self.comparison {
            let (mse, mae) = mean_label(walk);
            row("mean label", mse, mae, None);
        }
        rows
    }

    fn saved(&self) -> Result<(), CliError> {
        output::line(&format!("Run saved to {}", self.path.display()))
    }
}

/// Errors of the mean of all labels as the prediction for each.
fn mean_label(walk: &WalkData) -> (f64, f64) {
    let labels: Vec<f64> = walk.labels.iter().map(|&l| f64::from(l)).collect();
    let n = labels.len().max(1) as f64;
    let mean = labels.iter().sum::<f64>() / n;
    let sum = |f: fn(f64) -> f64| labels.iter().map(|l| f(l - mean)).sum::<f64>() / n;
    (sum(|e| e * e), sum(f64::abs))
}
