//! `landfall train --seeds`: the same run with several seeds, and how much their results differ.

use super::train::{Ended, fresh, go_on, settings};
use crate::args::Train;
use crate::error::CliError;
use crate::output;
use crate::signals::Stop;
use landfall_train::run::{EvaluationRecord, RunError, RunFolder, Settings, SettingsError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The file that says what the runs of a directory are.
const PLAN: &str = "seeds.toml";

/// What is trained once per seed.
#[derive(Serialize, Deserialize)]
struct Plan {
    seeds: Vec<u64>,
    tuned: bool,
    settings: Settings,
}

/// Whether a directory holds the runs of several seeds.
pub(super) fn is_one(path: &Path) -> bool {
    path.join(PLAN).is_file()
}

/// Goes on with the runs of several seeds: those that are complete are kept, one that was interrupted is resumed.
pub(super) fn resume(args: &Train, path: &Path, flags: &Settings, stop: &Stop) -> Result<u8, CliError> {
    if *flags != Settings::default() {
        let why = "the runs of several seeds keep their settings; leave out all flags but --json";
        return Err(CliError::Flags { flag: "--resume", other: "other flags".to_owned(), why });
    }
    let file = path.join(PLAN);
    let unreadable = |why: String| RunError::NotARun { path: path.to_owned(), why: format!("{PLAN}: {why}") };
    let text = std::fs::read_to_string(&file).map_err(|e| unreadable(e.to_string()))?;
    let plan: Plan = toml::from_str(&text).map_err(|e| unreadable(e.message().replace('\n', " ")))?;
    all(&plan, path, args.json, stop)
}

/// Mean and sample standard deviation.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// Trains once with each seed; the exit code. What is done when it is stopped stays.
pub(super) fn run(args: &Train, seeds: &[u64], stop: &Stop) -> Result<u8, CliError> {
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
    let plan = Plan { seeds: seeds.to_vec(), tuned: args.tuned, settings };
    let text = toml::to_string(&plan).map_err(|e| SettingsError::Unwritable(e.to_string()))?;
    let (file, new) = (parent.join(PLAN), parent.join(format!("{PLAN}.tmp")));
    // What this call makes, it also takes back where nothing could begin.
    let made = parent.ancestors().filter(|a| !a.as_os_str().is_empty()).take_while(|a| !a.exists()).last();
    let made = made.map(Path::to_owned);
    std::fs::create_dir_all(&parent)
        .and_then(|()| std::fs::write(&new, text))
        .and_then(|()| std::fs::rename(&new, &file))
        .map_err(|why| CliError::Write { path: file.clone(), why })?;
    let ended = all(&plan, &parent, args.json, stop);
    let begun = || seeds.iter().any(|seed| parent.join(format!("seed-{seed}")).exists());
    if let (Err(_), Some(made), false) = (&ended, made, begun()) {
        // Made a moment ago, and holds nothing but the plan.
        let _ = std::fs::remove_dir_all(made);
    }
    ended
}

/// Trains what is not trained yet, and sums up.
fn all(plan: &Plan, parent: &Path, json: bool, stop: &Stop) -> Result<u8, CliError> {
    let Plan { seeds, tuned, settings } = plan;
    let resolved = settings.resolve()?;
    let mut done: Vec<(u64, EvaluationRecord)> = Vec::new();
    for (i, &seed) in seeds.iter().enumerate() {
        output::line(&format!("\nseed {seed}, {} of {}", i + 1, seeds.len()))?;
        let path = parent.join(format!("seed-{seed}"));
        let ended = if path.exists() && !RunFolder::is_unbegun(&path) {
            match go_on(&Settings::default(), &path, json, stop.clone()) {
                Err(CliError::Complete { .. }) => Ended { code: 0, last: RunFolder::last_evaluation(&path)? },
                other => other?,
            }
        } else {
            let own = Settings { seed: Some(seed), ..settings.clone() };
            fresh(*tuned, json, own, Some(&path), stop.clone())?
        };
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
        let (mean, deviation) = mean_and_deviation(&values);
        summary[name] = json!({"mean": mean, "std": deviation});
        let head = match name {
            "accuracy" => "accuracy",
            "cross_entropy" => "cross-entropy",
            "mse" => "MSE",
            "mae" => "MAE",
            "mse_drop_last" => "MSE without the last partial batch",
            _ => "MAE without the last partial batch",
        };
        let cells = values.iter().chain([&mean, &deviation]).map(|v| output::digits(*v));
        for (row, cell) in rows.iter_mut().zip(std::iter::once(head.to_owned()).chain(cells)) {
            row.push(cell);
        }
    }
    output::line(&format!("\n{}\n", output::table(&rows)))?;
    let path = parent.join("summary.json");
    let text = format!("{summary}\n");
    std::fs::write(&path, text)
        .map_err(|why| CliError::During(RunError::Write { path: path.clone(), why }))?;
    output::line(&format!("Runs saved to {}: a run directory per seed, and summary.json", parent.display()))?;
    if json {
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
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, 2f64.sqrt()));
    }
}
