//! `landfall train --seeds`: the same run with several seeds, and how much their results differ.

use super::train::one_run::{Ended, fresh, go_on, new_settings};
use crate::args::Train;
use crate::error::CliError;
use crate::output;
use crate::signals::Stop;
use landfall::{Engine, World};
use landfall_forecast::ForecastError;
use landfall_forecast::run::{Device, EvaluationRecord, RunError, RunFolder, Settings, SettingsError};
use landfall_train::files;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

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

/// That what was taken for a run is the folder of the runs of several seeds.
pub(crate) fn of_several(why: &CliError) -> Option<String> {
    let CliError::Forecast(ForecastError::Run(RunError::NotARun { path, .. })) = why else { return None };
    let entries = std::fs::read_dir(path).ok().filter(|_| is_one(path))?;
    let run =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-"));
    let first = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(run).min()?;
    let (folder, first) = (path.display(), first.display());
    Some(format!("{folder} holds the runs of several seeds; name one of them, as {first}"))
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
        return Err(CliError::Range { flag: "--seeds", value, rule });
    }
    let settings = new_settings(args)?;
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
    let file = parent.join(PLAN);
    // What this call makes, it also takes back where nothing could begin.
    let made = parent.ancestors().filter(|a| !a.as_os_str().is_empty()).take_while(|a| !a.exists()).last();
    let made = made.map(Path::to_owned);
    std::fs::create_dir_all(&parent)
        .and_then(|()| files::replace(&file, text.as_bytes()))
        .map_err(|why| CliError::Write { path: file.clone(), why })?;
    let ended = all(&plan, &parent, args.json, stop);
    let begun = || seeds.iter().any(|seed| parent.join(format!("seed-{seed}")).exists());
    if let (Err(_), Some(made), false) = (&ended, made, begun()) {
        // Made a moment ago, and holds nothing but the plan.
        let _ = std::fs::remove_dir_all(made);
    }
    ended
}

/// Runs on a GPU at once, at most: a small model's kernels leave most of it idle, and each run's memory has to fit beside the
/// others'.
const AT_ONCE: usize = 4;

/// Whether a run is trained on a GPU.
fn on_gpu(asked: Option<Device>) -> bool {
    match asked {
        Some(Device::Cuda(_)) => true,
        Some(Device::Auto) | None => Engine::cuda(0).is_ok(),
        Some(Device::Cpu | Device::Null) => false,
    }
}

/// Trains each seed, so many at once, each in a thread; none begins after one that failed or was stopped.
fn each(
    seeds: &[u64],
    at_once: usize,
    one: impl Fn(u64) -> Result<Ended, CliError> + Sync,
) -> Result<Vec<Ended>, CliError> {
    if at_once == 1 {
        let mut all = Vec::new();
        for (i, &seed) in seeds.iter().enumerate() {
            output::line(&format!("\nseed {seed}, {} of {}", i + 1, seeds.len()))?;
            all.push(one(seed)?);
            if all.last().is_some_and(|ended| ended.last.is_none()) {
                break;
            }
        }
        return Ok(all);
    }
    output::line(&format!("{} seeds, {at_once} at once", seeds.len()))?;
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let i = next.fetch_add(1, Relaxed);
            let Some(&seed) = seeds.get(i) else { break };
            let result = output::prefixed(&format!("seed {seed}: "), || one(seed));
            if !result.as_ref().is_ok_and(|ended| ended.last.is_some()) {
                next.store(seeds.len(), Relaxed);
            }
            ended.lock().unwrap_or_else(PoisonError::into_inner).insert(i, result);
        }
    };
    std::thread::scope(|scope| (0..at_once).for_each(|_| _ = scope.spawn(work)));
    ended.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// Trains what is not trained yet, and sums up.
fn all(plan: &Plan, parent: &Path, json: bool, stop: &Stop) -> Result<u8, CliError> {
    let Plan { seeds, tuned, settings } = plan;
    let resolved = settings.resolve()?;
    let one = |seed: u64| {
        let path = parent.join(format!("seed-{seed}"));
        if path.exists() && !RunFolder::is_unbegun(&path) {
            return match go_on(&Settings::default(), &path, json, &World::single(), stop.clone()) {
                Err(CliError::Forecast(ForecastError::Complete { .. } | ForecastError::NoSteps(_))) => {
                    Ok(Ended { code: 0, last: RunFolder::last_evaluation(&path)? })
                }
                other => other,
            };
        }
        let own = Settings { seed: Some(seed), ..settings.clone() };
        fresh((*tuned, json), own, Some(&path), &World::single(), stop.clone())
    };
    // Kernels are timed where nothing else runs.
    let at_once = if on_gpu(resolved.settings.device) && !tuned { AT_ONCE.min(seeds.len()) } else { 1 };
    let mut done: Vec<(u64, EvaluationRecord)> = Vec::new();
    for (&seed, ended) in seeds.iter().zip(each(seeds, at_once, one)?) {
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
    files::replace(&path, text.as_bytes())
        .map_err(|why| CliError::during(RunError::Write { path: path.clone(), why }))?;
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
