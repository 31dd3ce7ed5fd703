//! What a run that finished says.

use crate::commands::{METRICS, class_rows, metric_cells, quantile_line, series_rows};
use crate::error::CliError;
use crate::output::{self, digits};
use crate::training::{Chosen, Comparison, Finished};
use landfall_train::choice::MIN_WINDOWS;
use landfall_train::data::synthetic::WalkData;
use landfall_train::data::{Metrics, Segment};
use landfall_train::run::{BaselineRecord, Choice, EvaluationRecord, Resolved, Scored};
use std::path::Path;

/// Fewer test windows than these say little: neighbouring windows share most of their rows.
const FEW_WINDOWS: usize = 20;

/// A run that finished, and what its results are compared with.
pub(super) struct Results<'a> {
    resolved: &'a Resolved,
    records: &'a [EvaluationRecord],
    simple: &'a [BaselineRecord],
    comparison: &'a Comparison,
    /// What the default recipe chose.
    chosen: Option<&'a Chosen>,
    path: &'a Path,
}

impl<'a> Results<'a> {
    /// Those of a run in this directory.
    pub(super) fn of(finished: &'a Finished, path: &'a Path) -> Self {
        let Finished { resolved, comparison, chosen, records, .. } = finished;
        let simple = records.last().map_or(&[][..], |r| &r.baselines);
        Self { resolved, records, simple, comparison, chosen: chosen.as_ref(), path }
    }

    /// Prints the scores beside those of the baselines, and where the run is.
    pub(super) fn print(&self) -> Result<(), CliError> {
        let Some(last) = self.records.last() else { return Ok(()) };
        let name = self.resolved.settings.preset.as_deref().unwrap_or_default();
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
        for line in self.verdict(last) {
            output::line(&line)?;
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
        if let Some(q) = last.quantiles {
            output::line(&quantile_line(&q))?;
        }
        if !last.series.is_empty() {
            output::line(&format!("\n{}\n", output::table(&series_rows(last))))?;
        }
        self.saved()?;
        if matches!(self.comparison, Comparison::Series(_)) {
            output::line(&format!("Forecast with: landfall forecast {}", self.path.display()))?;
        }
        Ok(())
    }

    /// The scores as a table's rows: the forecast first, then its network alone, then the baselines.
    fn rows(&self, name: &str, last: &EvaluationRecord) -> Vec<Vec<String>> {
        let head = format!("{} {} windows, scaled", last.windows, last.split);
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
                if c.choice.forecaster.share != 1.0 {
                    let name = format!("{} alone", c.choice.forecaster.network.name());
                    row(&name, c.network.mse, c.network.mae, c.network.metrics.as_ref());
                }
            }
        }
        for s in self.simple {
            row(&s.name, s.mse, s.mae, Some(&s.metrics));
        }
        if let Comparison::Labels(walk) = self.comparison {
            let (mse, mae) = mean_label(walk);
            row("mean label", mse, mae, None);
        }
        rows
    }

    /// Whether the forecast beats the baselines, how it was chosen, and how far the figures can be trusted.
    fn verdict(&self, last: &EvaluationRecord) -> Vec<String> {
        let mut lines = Vec::new();
        let better = self.simple.iter().min_by(|a, b| a.mse.total_cmp(&b.mse));
        if let Some(s) = better.filter(|s| last.mse >= s.mse) {
            let baseline = &s.name;
            let what = if self.chosen.is_some_and(|c| c.choice.forecaster.share == 0.0) {
                "No network was better than a baseline on the validation data".to_owned()
            } else {
                format!(
                    "The forecast does not beat {baseline}: MSE {} against {}",
                    digits(last.mse),
                    digits(s.mse)
                )
            };
            let tries = match self.chosen {
                Some(_) => {
                    "a longer series, a shorter --horizon, another --context, or further series of the same kind"
                }
                None => "the default recipe (leave out --preset), a larger --lr, or more --epochs",
            };
            lines.push(format!("{what}. Try {tries}."));
        }
        if let Some(c) = self.chosen {
            lines.extend(chosen_lines(&c.choice));
        }
        if last.windows < FEW_WINDOWS && last.split == Segment::Test.to_string() {
            let windows = if last.windows == 1 { "window" } else { "windows" };
            lines.push(format!(
                "Test has {} {windows}: these errors may be chance; a longer series or a shorter --horizon gives more.",
                last.windows
            ));
        }
        lines
    }

    fn saved(&self) -> Result<(), CliError> {
        output::line(&format!("Run saved to {}", self.path.display()))
    }
}

/// What was chosen, by what, and by how much.
fn chosen_lines(c: &Choice) -> Vec<String> {
    let by = if c.rolling {
        format!(
            "rolling origins before the test rows, {} windows in all (validation has {}, at least {MIN_WINDOWS} are needed)",
            c.windows, c.validation_windows
        )
    } else {
        format!("validation, {} windows", c.windows)
    };
    let scored = |s: &Scored| match s.ridge {
        Some(strength) => format!("{} (ridge strength {strength}) {}", s.name, digits(s.mse)),
        None => format!("{} {}", s.name, digits(s.mse)),
    };
    let mut lines = vec![format!("Forecaster: {}, chosen by {by}.", c.winner.name)];
    let network = c.network.as_ref().filter(|n| n.name != c.winner.name);
    let others = network.into_iter().chain((c.baseline.name != c.winner.name).then_some(&c.baseline));
    let parts: Vec<String> = std::iter::once(&c.winner).chain(others).map(scored).collect();
    lines.push(format!("MSE there: {}.", parts.join(", ")));
    lines
}

/// Errors of the mean of all labels as the prediction for each.
fn mean_label(walk: &WalkData) -> (f64, f64) {
    let labels: Vec<f64> = walk.labels.iter().map(|&l| f64::from(l)).collect();
    let n = labels.len().max(1) as f64;
    let mean = labels.iter().sum::<f64>() / n;
    let sum = |f: fn(f64) -> f64| labels.iter().map(|l| f(l - mean)).sum::<f64>() / n;
    (sum(|e| e * e), sum(f64::abs))
}
