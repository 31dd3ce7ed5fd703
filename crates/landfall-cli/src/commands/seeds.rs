//! `landfall train --seeds`: the same run with several seeds, and how much their results differ.

use super::train::{fresh, settings};
use crate::args::Train;
use crate::error::CliError;
use crate::output;
use landfall_train::run::{EvaluationRecord, RunError, SettingsError};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Mean and sample standard deviation.
fn spread(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// Trains once with each seed; the exit code. What is done when it is stopped stays.
pub(super) fn run(args: &Train, seeds: &[u64], stop: &Arc<AtomicBool>) -> Result<u8, CliError> {
    let twice = seeds.iter().enumerate().find(|(i, seed)| seeds[..*i].contains(seed));
    if seeds.len() < 2 || twice.is_some() {
        let value = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let rule = "give at least two, each once (--seed takes one)";
        return Err(RunError::from(SettingsError::Range { key: "--seeds", value, rule }).into());
    }
    let settings = settings(&args.setup)?;
    let resolved = settings.resolve()?;
    let parent = match &args.out {
        Some(path) => path.clone(),
        None => free(resolved.settings.preset.as_deref().unwrap_or("run")),
    };
    if parent.exists() {
        return Err(RunError::Exists { path: parent }.into());
    }
    let mut done: Vec<(u64, EvaluationRecord)> = Vec::new();
    for (i, &seed) in seeds.iter().enumerate() {
        output::line(&format!("\nseed {seed}, {} of {}", i + 1, seeds.len()))?;
        let own = landfall_train::run::Settings { seed: Some(seed), ..settings.clone() };
        let ended = fresh(args, own, Some(&parent.join(format!("seed-{seed}"))), Arc::clone(stop))?;
        match ended.last {
            Some(record) => done.push((seed, record)),
            None => return Ok(ended.code),
        }
    }
    type Score = (&'static str, fn(&EvaluationRecord) -> Option<f64>);
    let scores: [Score; 6] = [
        ("accuracy", |r| r.classes.map(|c| c.accuracy)),
        ("cross_entropy", |r| r.classes.map(|c| c.cross_entropy)),
        ("mse", |r| Some(r.mse)),
        ("mae", |r| Some(r.mae)),
        ("mse_drop_last", |r| r.mse_drop_last),
        ("mae_drop_last", |r| r.mae_drop_last),
    ];
    let split = done.first().map_or_else(String::new, |(_, r)| r.split.clone());
    let mut rows = vec![vec![split.clone()]];
    rows.extend(done.iter().map(|(seed, _)| vec![format!("seed {seed}")]));
    rows.extend(["mean", "standard deviation"].map(|name| vec![name.to_owned()]));
    let each = |(seed, r): &(u64, EvaluationRecord)| json!({"seed": seed, "result": r});
    let runs: Vec<_> = done.iter().map(each).collect();
    let mut summary =
        json!({"run": parent, "split": split, "configuration": resolved.settings.hash()?, "runs": runs});
    for (name, of) in scores {
        let values: Vec<f64> = done.iter().filter_map(|(_, r)| of(r)).collect();
        if values.len() < done.len() {
            continue;
        }
        let (mean, deviation) = spread(&values);
        summary[name] = json!({"mean": mean, "std": deviation});
        let head = match name {
            "accuracy" => "accuracy",
            "cross_entropy" => "cross-entropy",
            "mse" => "MSE",
            "mae" => "MAE",
            "mse_drop_last" => "MSE, whole batches",
            _ => "MAE, whole batches",
        };
        let cells = values.iter().chain([&mean, &deviation]).map(|v| format!("{v:.6}"));
        for (row, cell) in rows.iter_mut().zip(std::iter::once(head.to_owned()).chain(cells)) {
            row.push(cell);
        }
    }
    output::line(&format!("\n{}\n", output::table(&rows)))?;
    let path = parent.join("summary.json");
    let text = format!("{summary}\n");
    std::fs::write(&path, text)
        .map_err(|why| CliError::During(RunError::Write { path: path.clone(), why }))?;
    output::line(&format!(
        "everything lies in {}: a run folder for each seed, summary.json",
        parent.display()
    ))?;
    if args.json {
        output::json(&summary)?;
    }
    Ok(0)
}

/// The first free `runs/<model>-seeds-<number>`.
fn free(name: &str) -> PathBuf {
    let numbered = |number: usize| PathBuf::from("runs").join(format!("{name}-seeds-{number}"));
    (1..).map(numbered).find(|p| !p.exists()).unwrap_or_else(|| numbered(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_the_samples() {
        assert_eq!(spread(&[1.0, 3.0]), (2.0, 2f64.sqrt()));
    }
}
