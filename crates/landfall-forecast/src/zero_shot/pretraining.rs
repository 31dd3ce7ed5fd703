//! Pretraining by a recipe, in a folder of its own, resumable after any interruption.

use super::weights::Weights;
use super::{Recipe, ZeroShotError};
use crate::data::generated::Simulator;
use crate::files;
use crate::models::zero_shot::ZeroShot;
use crate::train::{self, Arrays, Pool, Predictor, Trainer};
use landfall::profile::Profile;
use landfall::{Engine, Error};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The recipe of a folder.
const RECIPE: &str = "recipe.toml";
/// What a run goes on from.
const CHECKPOINT: &str = "checkpoint.safetensors";
/// A line for each validation.
const CURVE: &str = "curve.jsonl";
/// The averaged weights, in bf16.
const WEIGHTS: &str = "weights.safetensors";
/// The name of the series, and of the rows that are known of each, in the trainer's arrays.
const SERIES: &str = "series";
const KNOWN: &str = "rows";
/// Series that are validated at a time.
const VALIDATED: usize = 256;

/// Where a pretraining stands: a line of its curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps done.
    pub step: usize,
    /// Seconds of all steps so far, over all interruptions.
    pub seconds: f64,
    /// Mean loss of the steps since the point before.
    pub loss: f64,
    /// Loss of the averaged weights on the simulated series of validation.
    pub validation: f64,
    /// Learning rate of the last step.
    pub lr: f64,
    /// Steps a second since the point before.
    pub steps_per_second: f64,
    /// Share of that time in which steps waited for their data.
    pub waited: f64,
}

/// How [`Pretraining::run`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All steps are done.
    Complete,
    /// It was asked to stop, and goes on from there another time.
    Stopped,
}

/// A pretraining in a folder: `recipe.toml`, `checkpoint.safetensors`, `curve.jsonl` and, after each validation, the averaged weights as
/// `weights.safetensors`.
#[derive(Debug)]
pub struct Pretraining {
    recipe: Recipe,
    folder: PathBuf,
    network: ZeroShot,
    trainer: Trainer,
    pool: Pool,
    validator: Predictor,
    validation: Arrays,
    /// Seconds of the steps done so far.
    seconds: f64,
}

impl Pretraining {
    /// Begins a pretraining in a folder, or goes on with the one that is there. `threads` of the host simulate.
    ///
    /// # Errors
    /// [`ZeroShotError::OtherRecipe`] for a folder of another recipe; a checkpoint that is damaged; no memory; a device fault.
    pub fn new(
        engine: &Engine,
        recipe: Recipe,
        folder: &Path,
        threads: usize,
    ) -> Result<Self, ZeroShotError> {
        begin(folder, &recipe)?;
        let network = ZeroShot::new(recipe.network).map_err(ZeroShotError::Unfit)?;
        let (rows, series) = (recipe.simulation.rows, recipe.simulation.series);
        // The pool writes the first series over these.
        let blank = Arrays::new().with(SERIES, [series, rows], vec![0.0f32; series * rows])?;
        let (crops, options) = (&recipe.crops, recipe.options()?);
        let mut trainer = Trainer::new(engine, network.parameters(), &blank, options, |cx, batch| {
            crops.loss(cx, &network, batch.get(SERIES)?)
        })?;
        trainer.schedule(|step| recipe.rate(step))?;
        let simulator = recipe.simulator()?;
        let pool = Pool::new(recipe.simulation.steps, move |number| {
            let first = number.wrapping_mul(series as u64);
            Arrays::new().with(SERIES, [series, rows], simulated(&simulator, first, [series, rows], threads))
        })?;
        let validation = validation(&recipe, threads)?;
        let horizon = recipe.validation.horizon;
        let at_once = VALIDATED.min(recipe.validation.series);
        let validator = trainer.predictor(&validation, at_once, train::Weights::Average, |cx, batch| {
            crops.each(cx, &network, [batch.get(SERIES)?, batch.get(KNOWN)?], horizon)
        })?;
        let folder = folder.to_owned();
        let mut all = Self { recipe, folder, network, trainer, pool, validator, validation, seconds: 0.0 };
        all.resume()?;
        Ok(all)
    }

    /// Its trainer.
    #[must_use]
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// Where the time of a step goes ([`Trainer::profile`]). It trains on the series that are on the device.
    ///
    /// # Errors
    /// A device fault; not enough memory for what the device's rates are measured on.
    pub fn profile(&mut self, runs: usize) -> Result<Profile, ZeroShotError> {
        Ok(self.trainer.profile(runs)?)
    }

    /// Steps done.
    ///
    /// # Errors
    /// A device fault.
    pub fn step(&mut self) -> Result<usize, ZeroShotError> {
        Ok(self.trainer.position()?)
    }

    /// Trains until all steps are done, or until `stop` says so, which is asked between steps with the time that this call has taken.
    /// `each` is told every point of the curve; a checkpoint is written then.
    ///
    /// # Errors
    /// A step that is not finite; a file that cannot be written; a device fault.
    pub fn run(
        &mut self,
        mut stop: impl FnMut(Duration) -> bool,
        mut each: impl FnMut(&Point),
    ) -> Result<Verdict, ZeroShotError> {
        let start = Instant::now();
        let mut done = self.trainer.position()?;
        while done < self.recipe.steps {
            let every = self.recipe.validation.every;
            let next = ((done / every + 1) * every).min(self.recipe.steps);
            let (point, stopped) = self.stretch(next, || stop(start.elapsed()))?;
            each(&point);
            if stopped {
                return Ok(Verdict::Stopped);
            }
            done = next;
        }
        Ok(Verdict::Complete)
    }

    /// The averaged weights as they stand.
    ///
    /// # Errors
    /// A device fault.
    pub fn weights(&self) -> Result<Weights, ZeroShotError> {
        let list = self.network.parameters().list();
        let of = |p: &crate::nn::Parameter| self.trainer.parameter(&p.name, train::Weights::Average);
        let values = list.iter().map(of).collect::<Result<_, _>>()?;
        Ok(Weights { network: self.network.clone(), values })
    }

    /// Trains up to a step, or less where it is to stop, and writes where it stands.
    fn stretch(&mut self, to: usize, stop: impl FnMut() -> bool) -> Result<(Point, bool), ZeroShotError> {
        let (begun, waited) = (Instant::now(), self.pool.waited());
        let first = self.trainer.position()?;
        let (losses, stopped) = self.pool.advance_until(&mut self.trainer, to, stop)?;
        let done = self.trainer.position()?;
        let seconds = begun.elapsed().as_secs_f64();
        self.seconds += seconds;
        let count = losses.len().max(1) as f64;
        let point = Point {
            step: done,
            seconds: self.seconds,
            loss: losses.iter().map(|s| s.loss).sum::<f64>() / count,
            validation: self.validate()?,
            lr: losses.last().map_or(0.0, |s| s.lr),
            steps_per_second: (done - first) as f64 / seconds,
            waited: (self.pool.waited() - waited).as_secs_f64() / seconds,
        };
        self.keep(&point)?;
        Ok((point, stopped && done < self.recipe.steps))
    }

    /// The mean loss on the series of validation.
    fn validate(&mut self) -> Result<f64, ZeroShotError> {
        let each = self.validator.run(&self.trainer, &self.validation)?.data;
        Ok(each.iter().sum::<f64>() / each.len().max(1) as f64)
    }

    /// Writes checkpoint, curve and weights.
    fn keep(&mut self, point: &Point) -> Result<(), ZeroShotError> {
        self.trainer.save(&self.folder.join(CHECKPOINT))?;
        let path = self.folder.join(CURVE);
        let failed = |why| ZeroShotError::Write { path: path.clone(), why };
        let line = serde_json::to_string(point).map_err(|e| failed(e.into()))?;
        files::append(&path).and_then(|mut file| writeln!(file, "{line}")).map_err(failed)?;
        let r = &self.recipe;
        let notes = [
            ("seed", r.seed.to_string()),
            ("steps", format!("{} of {}", point.step, r.steps)),
            ("seconds", format!("{:.1}", point.seconds)),
            ("validation", point.validation.to_string()),
            ("recipe", r.text()?),
        ];
        self.weights()?.write(&self.folder.join(WEIGHTS), &notes)
    }

    /// Goes on from the checkpoint of the folder, if there is one, and cuts the curve there.
    fn resume(&mut self) -> Result<(), ZeroShotError> {
        let checkpoint = self.folder.join(CHECKPOINT);
        if !checkpoint.exists() {
            return Ok(());
        }
        self.trainer.load(&checkpoint)?;
        let step = self.trainer.position()?;
        let path = self.folder.join(CURVE);
        let curve = |why: String| ZeroShotError::Curve { path: path.clone(), why };
        let text = files::read_text(&path).map_err(|e| curve(e.to_string()))?;
        let mut kept = String::new();
        // A line that was cut short by the interruption is behind the checkpoint.
        for line in text.lines() {
            let Ok(point) = serde_json::from_str::<Point>(line) else { break };
            if point.step > step {
                break;
            }
            self.seconds = point.seconds;
            kept += line;
            kept.push('\n');
        }
        files::replace(&path, kept.as_bytes()).map_err(|e| curve(e.to_string()))
    }
}

/// Makes the folder, or checks that it is of this recipe.
fn begin(folder: &Path, recipe: &Recipe) -> Result<(), ZeroShotError> {
    let path = folder.join(RECIPE);
    let text = recipe.text()?;
    let failed = |why| ZeroShotError::Write { path: path.clone(), why };
    fs::create_dir_all(folder).map_err(failed)?;
    if !path.exists() {
        return files::replace(&path, text.as_bytes()).map_err(failed);
    }
    let before = Recipe::read(&path)?;
    if before == *recipe {
        return Ok(());
    }
    let before = before.text()?;
    let differing = before.lines().zip(text.lines()).find(|(a, b)| a != b);
    let line = differing.map_or_else(|| "its length".to_owned(), |(a, b)| format!("`{a}`, now `{b}`"));
    Err(ZeroShotError::OtherRecipe { run: folder.to_owned(), line })
}

/// Simulated series, one behind the other.
fn simulated(simulator: &Simulator, first: u64, [series, rows]: [usize; 2], threads: usize) -> Vec<f32> {
    let mut all = vec![0.0; series * rows];
    simulator.fill(first, rows, threads, &mut all);
    all
}

/// Series of another seed, and how many rows of each are known: 3 up to the longest context, evenly in their logarithm.
fn validation(recipe: &Recipe, threads: usize) -> Result<Arrays, Error> {
    let (v, rows) = (&recipe.validation, recipe.network.context + recipe.validation.horizon);
    let simulator = Simulator::new(v.seed);
    let series = simulated(&simulator, 0, [v.series, rows], threads);
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let known = (0..v.series).map(|i| {
        let at = (i as f64 * golden).fract();
        (3.0 * (recipe.network.context as f64 / 3.0).powf(at)).floor() as f32
    });
    Arrays::new().with(SERIES, [v.series, rows], series)?.with(KNOWN, [v.series, 1], known.collect())
}
