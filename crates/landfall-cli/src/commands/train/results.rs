//! What a run that finished says.

use super::{Comparison, Scored};
use crate::commands::{class_rows, quantile_line, series_rows};
use crate::error::CliError;
use crate::output;
use landfall_train::data::Segment;
use landfall_train::data::synthetic::WalkData;
use landfall_train::run::{EvaluationRecord, Resolved};
use serde_json::json;
use std::path::Path;

/// A table of the scores beside what they are compared with, and where everything lies.
pub(super) fn results(
    resolved: &Resolved,
    records: &[EvaluationRecord],
    simple: &[Scored],
    comparison: &Comparison,
    path: &Path,
) -> Result<(), CliError> {
    let Some(last) = records.last() else { return Ok(()) };
    let name = resolved.settings.preset.as_deref().unwrap_or_default();
    if let (Some(c), Comparison::Classes(known)) = (&last.classes, comparison) {
        let mut rows = class_rows(name, last, c);
        rows.extend(known.scores().map(|(name, accuracy)| vec![name.to_owned(), format!("{accuracy:?}")]));
        output::line(&format!("\n{}\n", output::table(&rows)))?;
        all_lies_in(path)?;
        return output::line(&format!("predict with: landfall predict {} --data F.csv", path.display()));
    }
    let mut rows =
        vec![vec![format!("{} windows of {}", last.windows, last.split), "MSE".to_owned(), "MAE".to_owned()]];
    rows.push(vec![name.to_owned(), format!("{:?}", last.mse), format!("{:?}", last.mae)]);
    for (name, s) in simple {
        rows.push(vec![name.clone(), format!("{:?}", s.mse), format!("{:?}", s.mae)]);
    }
    if let Comparison::Labels(walk) = comparison {
        let (mse, mae) = mean_label(walk);
        rows.push(vec!["mean label".to_owned(), format!("{mse:?}"), format!("{mae:?}")]);
    }
    output::line(&format!("\n{}\n", output::table(&rows)))?;
    if last.split == Segment::Train.to_string() {
        output::line("these windows are the training windows: this benchmark holds none out")?;
    } else if let (Some(mse), Some(mae)) = (last.mse_drop_last, last.mae_drop_last) {
        output::line(&format!(
            "whole batches alone ({} windows): MSE {mse:?}, MAE {mae:?}",
            last.windows_drop_last
        ))?;
    }
    if let Some(q) = last.quantiles {
        output::line(&quantile_line(&q))?;
    }
    if !last.series.is_empty() {
        output::line(&format!("\n{}\n", output::table(&series_rows(last))))?;
    }
    all_lies_in(path)?;
    if matches!(comparison, Comparison::Series(_)) {
        output::line(&format!("forecast with: landfall forecast {}", path.display()))?;
    }
    Ok(())
}

fn all_lies_in(path: &Path) -> Result<(), CliError> {
    output::line(&format!(
        "everything lies in {}: best.safetensors (best weights), checkpoint.safetensors (last state), metrics.jsonl, \
         config.toml, plan.json",
        path.display()
    ))
}

/// Errors of the mean of all labels as the prediction for each.
fn mean_label(walk: &WalkData) -> (f64, f64) {
    let labels: Vec<f64> = walk.labels.iter().map(|&l| f64::from(l)).collect();
    let n = labels.len().max(1) as f64;
    let mean = labels.iter().sum::<f64>() / n;
    let sum = |f: fn(f64) -> f64| labels.iter().map(|l| f(l - mean)).sum::<f64>() / n;
    (sum(|e| e * e), sum(f64::abs))
}

pub(super) fn object(
    path: &Path,
    steps: usize,
    records: &[EvaluationRecord],
    simple: &[Scored],
    comparison: &Comparison,
) -> serde_json::Value {
    let mut object = json!({"run": path, "steps": steps});
    if let Some(r) = records.last() {
        object["split"] = json!(r.split);
        object["mse"] = json!(r.mse);
        object["mae"] = json!(r.mae);
        object["mse_drop_last"] = json!(r.mse_drop_last);
        object["mae_drop_last"] = json!(r.mae_drop_last);
        object["windows"] = json!(r.windows);
        if let Some(q) = r.quantiles {
            object["quantiles"] = json!(q);
        }
        if !r.series.is_empty() {
            object["series"] = json!(r.series);
        }
        if let Some(c) = r.classes {
            object["accuracy"] = json!(c.accuracy);
            object["cross_entropy"] = json!(c.cross_entropy);
        }
    }
    if let Comparison::Classes(known) = comparison {
        for (name, accuracy) in known.scores() {
            object[name.replace(' ', "_")] = json!({"accuracy": accuracy});
        }
    }
    for (name, s) in simple {
        let key = name.split(' ').next().unwrap_or(name);
        object[key] = json!({"mse": s.mse, "mae": s.mae});
    }
    object
}
