//! How often a run is validated and written down changes no result, interrupted or not.

use landfall::Engine;
use landfall_forecast::run::{
    CheckpointEvery, EvaluationRecord, FitOptions, Observer, Outcome, RunFolder, RunLock, StepLine, Units,
    complete, fit,
};
use landfall_train::checkpoint::{CheckpointError, File, Progress, load_checkpoint, save};
use landfall_train::data::{Split, synthetic};
use landfall_train::models::{DLinear, DLinearConfig};
use landfall_train::train::{Dataset, Session, TrainingOptions};
use std::path::Path;

type Check = Result<(), Box<dyn std::error::Error>>;

/// Stops a run after so many steps.
struct StopAfter(usize, usize);

impl Observer for StopAfter {
    fn step(&mut self, _: &StepLine) {}
    fn progress(&mut self, done: usize, _: usize) {
        self.1 = done;
    }
    fn evaluation(&mut self, _: &EvaluationRecord, _: bool) {}
    fn stop(&self) -> bool {
        self.1 >= self.0
    }
}

const NEVER: usize = usize::MAX;

/// A DLinear at a rate at which its validation error soon stops falling.
fn session(epochs: usize, max_steps: Option<usize>) -> Result<(Session, Units), Box<dyn std::error::Error>> {
    let engine = Engine::cpu_with_threads(1)?;
    let series = synthetic::demo(200, 2, 5)?;
    let (dataset, panel) = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 16, 4)?;
    let model = DLinear::new(DLinearConfig { context: 16, horizon: 4, kernel: 5, outputs: 1 })?;
    let options = TrainingOptions { epochs, max_steps, lr: 0.3, seed: 3, ..TrainingOptions::default() };
    let session = Session::new(&engine, Box::new(model), &dataset, 16, 4, options)?;
    Ok((session, Units::of(&panel)))
}

struct Case {
    epochs: usize,
    max_steps: Option<usize>,
    validate_every: Option<usize>,
    patience: Option<usize>,
}

impl Case {
    /// Goes on in a folder, or begins there, and stops after `stop` steps; how it ended.
    fn go(
        &self,
        path: &Path,
        every: CheckpointEvery,
        stop: usize,
    ) -> Result<Outcome, Box<dyn std::error::Error>> {
        let (mut session, units) = session(self.epochs, self.max_steps)?;
        let options = FitOptions {
            epochs: self.epochs,
            max_steps: self.max_steps,
            validate_every: self.validate_every,
            weights_given: false,
            patience: self.patience,
            checkpoint: every,
            log_every: 50,
            units,
            test: None,
            intervals: Vec::new(),
            configuration: "seed = 3\n".to_owned(),
        };
        let checkpoint = path.join("checkpoint.safetensors");
        let (mut folder, from) = match checkpoint.exists() {
            true => {
                let from = load_checkpoint(&checkpoint, &File::read(&checkpoint)?, &mut session)?;
                assert!(!complete(&session, path, &from, &options)?, "nothing was left after {from:?}");
                (RunFolder::resume(RunLock::take(path)?, from.step)?, from)
            }
            false => (RunFolder::create(path, "seed = 3\n")?, Progress::default()),
        };
        Ok(fit(&mut session, &mut folder, from, &options, &mut StopAfter(stop, from.step))?)
    }
}

/// What a run leaves behind.
fn files(path: &Path) -> Vec<Vec<u8>> {
    let names = ["metrics.jsonl", "checkpoint.safetensors", "best.safetensors"];
    names.map(|name| std::fs::read(path.join(name)).unwrap_or_default()).to_vec()
}

const CASES: [Case; 4] = [
    Case { epochs: 5, max_steps: None, validate_every: None, patience: Some(2) },
    Case { epochs: 5, max_steps: None, validate_every: Some(3), patience: Some(3) },
    Case { epochs: 1, max_steps: Some(11), validate_every: Some(2), patience: None },
    Case { epochs: 1, max_steps: Some(11), validate_every: None, patience: None },
];

#[test]
fn any_interval_and_any_interruption_leave_the_same_bytes() -> Check {
    let folder = tempfile::tempdir()?;
    for (number, case) in CASES.iter().enumerate() {
        let straight = folder.path().join(format!("straight-{number}"));
        let Outcome::Finished { steps, .. } = case.go(&straight, CheckpointEvery::default(), NEVER)? else {
            return Err("nobody stopped it".into());
        };
        assert!(steps > 5, "case {number} ended after {steps} steps");
        for stop in 0..steps {
            let every =
                CheckpointEvery { steps: 1 + stop % 4, minutes: if stop % 2 == 0 { 1e-9 } else { 1.0 } };
            let parts = folder.path().join(format!("parts-{number}-{stop}"));
            assert_eq!(case.go(&parts, every, stop)?, Outcome::Interrupted { step: stop }, "case {number}");
            case.go(&parts, CheckpointEvery::default(), NEVER)?;
            assert!(files(&parts) == files(&straight), "case {number} stopped after step {stop} differs");
        }
    }
    Ok(())
}

/// A run that dies goes on from its last checkpoint, which is at most an interval old, and remakes what came after it.
#[test]
fn a_run_that_dies_loses_an_interval_at_most() -> Check {
    let folder = tempfile::tempdir()?;
    for (number, case) in CASES.iter().enumerate() {
        let straight = folder.path().join(format!("straight-{number}"));
        let Outcome::Finished { steps, .. } = case.go(&straight, CheckpointEvery::default(), NEVER)? else {
            return Err("nobody stopped it".into());
        };
        // As a kill would leave it: the files of step `died`, and the checkpoint of the last interval before it.
        for died in 1..steps {
            let [dead, last] = ["dead", "last"].map(|n| folder.path().join(format!("{n}-{number}-{died}")));
            let every = CheckpointEvery { steps: 3, minutes: 1.0 };
            case.go(&dead, every, died)?;
            case.go(&last, every, died / 3 * 3)?;
            std::fs::copy(last.join("checkpoint.safetensors"), dead.join("checkpoint.safetensors"))?;
            // The best weights are written just before a checkpoint: those of a kill between the two are newer than it.
            if died % 2 == 1 {
                let [from, to] = [&last, &dead].map(|run| run.join("best.safetensors"));
                if from.exists() {
                    std::fs::copy(from, to)?;
                } else if to.exists() {
                    std::fs::remove_file(to)?;
                }
            }
            case.go(&dead, every, NEVER)?;
            assert!(files(&dead) == files(&straight), "case {number} that died after step {died} differs");
        }
    }
    Ok(())
}

#[test]
fn patience_counts_validations() -> Check {
    let folder = tempfile::tempdir()?;
    let case = Case { epochs: 50, max_steps: None, validate_every: Some(2), patience: Some(3) };
    let Outcome::Finished { steps, .. } = case.go(folder.path(), CheckpointEvery::default(), NEVER)? else {
        return Err("nobody stopped it".into());
    };
    let text = std::fs::read_to_string(folder.path().join("metrics.jsonl"))?;
    let lines: Vec<serde_json::Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let of = |split: &str| lines.iter().filter(|l| l["split"] == split).collect::<Vec<_>>();
    let validations = of("validation");
    assert_eq!(
        validations.iter().filter_map(|l| l["step"].as_u64()).collect::<Vec<_>>(),
        (2..=steps as u64).step_by(2).collect::<Vec<_>>()
    );
    let mse = |l: &serde_json::Value| l["mse"].as_f64().unwrap_or(f64::NAN);
    let best = validations.iter().map(|l| mse(l)).fold(f64::INFINITY, f64::min);
    // The best weights are followed by exactly as many validations as the patience, and they are the ones tested.
    let at = validations.len() - 4;
    assert_eq!(mse(validations[at]), best, "{validations:?}");
    assert_eq!(of("test")[0]["step"], validations[at]["step"]);
    Ok(())
}

#[test]
fn counters_that_no_run_reaches_are_refused() -> Check {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("checkpoint.safetensors");
    let (mut session, _) = session(1, None)?;
    for (step, accepted) in [(1 << 53, true), ((1 << 53) + 1, false), (usize::MAX, false)] {
        save(&path, &session, "", &Progress { step, ..Progress::default() }, true)?;
        match load_checkpoint(&path, &File::read(&path)?, &mut session) {
            Ok(progress) => assert!(accepted && progress.step == step, "{step}"),
            Err(CheckpointError::Metadata { name, .. }) => {
                assert!(!accepted && name == "step", "{step}: {name}")
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}
