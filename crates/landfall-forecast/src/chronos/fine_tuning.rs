//! The training of a Chronos-2 on series of one's own, with a choice by validation, resumable after any interruption.

use super::adapter::Adapter;
use super::error::ChronosError;
use super::folder::{Weights, digest};
use super::forecaster::Group;
use super::options::FineTuningOptions;
use super::windows::{ARRAYS, Form, Sampler, last};
use crate::checkpoint::{File, Tensor};
use crate::files;
use crate::models::chronos::{Chronos2, Network, Seen, quantile_loss};
use crate::nn::{Context, Parameter};
use crate::train::{self, Arrays, Batch, Pool, Predictor, Trainer};
use crate::zero_shot::Verdict;
use landfall::{Engine, Error, HostTensor, Program, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a training is of.
const TRAINING: &str = "training.json";
/// What it goes on from.
const CHECKPOINT: &str = "checkpoint.safetensors";
/// The weights that validation chose.
const BEST: &str = "best.safetensors";
/// The points of its curve.
const CURVE: &str = "curve.json";
/// Entries of the metadata of the weights that validation chose.
const STEP: &str = "step";
const LOSS: &str = "loss";
/// Values of the windows that are on the device at once, if not one step has more; and steps that they are for at most.
const FILLING: usize = 1 << 22;
const STEPS: usize = 64;

/// A point of the curve of a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps done.
    pub step: usize,
    /// The loss of each step since the point before.
    pub losses: Vec<f64>,
    /// Learning rate of the last step.
    pub lr: f64,
    /// The loss of the groups of validation, where they were asked.
    pub validation: Option<f64>,
}

/// The weights that validation chose so far.
#[derive(Debug, Clone)]
struct Best {
    step: usize,
    loss: f64,
    tensors: BTreeMap<String, Tensor>,
}

/// What a folder's training is of: a run goes on with the same alone.
#[derive(PartialEq, Serialize, Deserialize)]
struct Origin {
    options: FineTuningOptions,
    weights: String,
    series: String,
    validation: String,
}

/// A training of a Chronos-2: all weights, or an adapter, by the authors' loss on windows drawn from groups of series. Where groups of
/// validation are given, the weights with the smallest loss on the last window of each are kept; the given ones are among them.
///
/// ```no_run
/// use landfall::Engine;
/// use landfall_forecast::chronos::{FineTuning, FineTuningOptions, Group, Weights};
/// let weights = Weights::read("chronos-2".as_ref())?;
/// # let (series, others) = (vec![vec![1.0; 400]; 8], vec![vec![1.0; 400]; 2]);
/// let groups = series.into_iter().map(Group::of).collect();
/// let validation: Vec<Group> = others.into_iter().map(Group::of).collect();
/// let options = FineTuningOptions { adapter: Some(FineTuningOptions::low_rank()), ..FineTuningOptions::new(24) };
/// let folder = Some("training".as_ref()); // goes on with what is there
/// let mut training = FineTuning::new(&Engine::cpu()?, &weights, options, groups, &validation, folder)?;
/// training.run(|| false, |point| println!("{} {:?}", point.step, point.validation))?;
/// training.weights()?.write("chronos-2-sales".as_ref())?; // merged, as the authors' package reads it
/// if let Some(adapter) = training.adapter()? {
///     adapter.write("chronos-2-adapter".as_ref())?; // or apart
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FineTuning {
    options: FineTuningOptions,
    weights: Weights,
    network: Chronos2,
    trainer: Trainer,
    pool: Pool,
    sampler: Sampler,
    validation: Option<(Predictor, Arrays)>,
    best: Option<Best>,
    points: Vec<Point>,
    folder: Option<PathBuf>,
}

landfall::debug_as_text!(FineTuning);

impl std::fmt::Display for FineTuning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.network.parameters().count();
        write!(f, "training of {count} parameters of a Chronos-2 for {} steps", self.options.steps)
    }
}

impl FineTuning {
    /// Begins a training of these weights, or goes on with that of the folder, if one is given and has one. All groups must have as many
    /// targets, past and known covariates; the future of known ones is not read. Groups that are shorter than a window are left out.
    ///
    /// # Errors
    /// Weights of a Chronos-Bolt; options or groups that do not fit; a folder with another training, or one that is damaged; not enough
    /// memory; a device fault.
    pub fn new(
        engine: &Engine,
        weights: &Weights,
        options: FineTuningOptions,
        groups: Vec<Group>,
        validation: &[Group],
        folder: Option<&Path>,
    ) -> Result<Self, ChronosError> {
        let Network::Chronos2(network) = &weights.network else {
            return Err(ChronosError::NotTrained { network: weights.network.name() });
        };
        let mut network = network.clone();
        options.check(network.config(), engine.device())?;
        if let Some(adapter) = &options.adapter {
            network.parameters_mut().adapt(adapter)?;
        }
        let form = Form::of(&groups, network.config(), &options)?;
        let each = options.batch.div_ceil(form.members);
        let sampler = Sampler::new(&groups, &options, each)?;
        if let Some(folder) = folder {
            let series = |groups: &[Group]| digest(groups.iter().flat_map(Group::bytes));
            let (weights, series, validation) = (weights.digest(), series(&groups), series(validation));
            begin(folder, &Origin { options: options.clone(), weights, series, validation })?;
        }
        let steps = (FILLING / (each * form.values()).max(1)).clamp(1, STEPS).min(options.steps);
        // The pool writes the first windows over these.
        let blank = form.blank(each * steps)?;
        let mut trainer = Trainer::new(
            engine,
            network.parameters(),
            &blank,
            options.training(engine.device(), each)?,
            |cx, batch| cx.graph.mean_all(losses(cx, &network, batch, form)?),
        )?;
        trainer.schedule(|step| options.rate(step))?;
        weights.load(&mut trainer.state)?;
        let (drawn, groups) = (sampler.clone(), Arc::new(groups));
        let source = Arc::clone(&groups);
        let pool = Pool::new(steps, move |number| {
            let first = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(steps);
            let windows: Vec<_> = (first..first + steps).flat_map(|step| drawn.windows(step)).collect();
            form.arrays(&source, &windows)
        })?;
        let validation = match validation {
            [] => None,
            some => {
                let own = Form::of(some, network.config(), &options)?;
                if !own.is_like(&form) {
                    let kinds = |g: &Group| [g.targets.len(), g.past.len(), g.known.len()];
                    return Err(ChronosError::Validation {
                        found: kinds(&some[0]),
                        expected: kinds(&groups[0]),
                    });
                }
                let arrays = own.arrays(some, &last(some, options.horizon)?)?;
                let at_once = each.min(arrays.rows());
                let losses = trainer.predictor(&arrays, at_once, train::Weights::Last, |cx, batch| {
                    losses(cx, &network, batch, own)
                })?;
                Some((losses, arrays))
            }
        };
        let (weights, folder) = (weights.clone(), folder.map(Path::to_owned));
        let (best, points) = (None, Vec::new());
        let mut all =
            Self { options, weights, network, trainer, pool, sampler, validation, best, points, folder };
        all.resume()?;
        Ok(all)
    }

    /// The program of a step.
    #[must_use]
    pub fn program(&self) -> &Program {
        self.trainer.program()
    }

    /// What draws the windows.
    #[must_use]
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// The curve so far.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The step whose weights validation chose so far, and their loss; nothing without validation.
    #[must_use]
    pub fn chosen(&self) -> Option<(usize, f64)> {
        self.best.as_ref().map(|best| (best.step, best.loss))
    }

    /// Trains until all steps are done, or until `stop` says so, which is asked between steps. `each` is told every point of the curve; a
    /// checkpoint is written then, where there is a folder.
    ///
    /// # Errors
    /// A step that is not finite; a file that cannot be written; a device fault.
    pub fn run(
        &mut self,
        mut stop: impl FnMut() -> bool,
        mut each: impl FnMut(&Point),
    ) -> Result<Verdict, ChronosError> {
        let mut done = self.trainer.position()?;
        if done == 0 && self.points.is_empty() && self.validation.is_some() {
            each(self.reached(0, Vec::new(), true)?);
        }
        while done < self.options.steps {
            let next = ((done / self.options.every + 1) * self.options.every).min(self.options.steps);
            let (steps, stopped) = self.pool.advance_until(&mut self.trainer, next, &mut stop)?;
            done = self.trainer.position()?;
            let losses = steps.into_iter().map(|step| step.loss).collect();
            // A validation at a step of its own would be a choice that a run without a break does not have.
            each(self.reached(done, losses, done == next)?);
            if stopped && done < self.options.steps {
                return Ok(Verdict::Stopped);
            }
        }
        Ok(Verdict::Complete)
    }

    /// The weights as they were chosen, else as they stand; an adapter is merged into them.
    ///
    /// # Errors
    /// A device fault.
    pub fn weights(&self) -> Result<Weights, ChronosError> {
        match self.adapter()? {
            Some(adapter) => self.weights.merged(&adapter),
            None => self.weights.with(|parameter| self.trained(parameter)),
        }
    }

    /// The adapter, if one is trained, as [`FineTuning::weights`] has it.
    ///
    /// # Errors
    /// A device fault.
    pub fn adapter(&self) -> Result<Option<Adapter>, ChronosError> {
        let Some(how) = self.options.adapter.clone() else { return Ok(None) };
        let factor = |p: &Parameter| Ok((p.parts[0].clone(), Tensor::from(&self.trained(p)?)));
        let factors = self.network.parameters().trainable().into_iter().map(factor);
        Ok(Some(Adapter { how, factors: factors.collect::<Result<_, ChronosError>>()? }))
    }

    /// The chosen values of a parameter that is trained.
    fn trained(&self, parameter: &Parameter) -> Result<HostTensor, ChronosError> {
        match self.best.as_ref().and_then(|best| best.tensors.get(&parameter.name)) {
            Some(tensor) => Ok(tensor.host().map_err(Error::from)?),
            None => Ok(self.trainer.parameter(&parameter.name, train::Weights::Last)?),
        }
    }

    /// Adds a point of the curve, after a validation if it is time for one, and writes where the training stands.
    fn reached(&mut self, step: usize, mut losses: Vec<f64>, asked: bool) -> Result<&Point, ChronosError> {
        let validation = match &mut self.validation {
            Some((losses, arrays)) if asked => {
                let each = losses.run(&self.trainer, arrays)?.data;
                Some(each.iter().sum::<f64>() / each.len().max(1) as f64)
            }
            _ => None,
        };
        let better = validation.filter(|loss| self.best.as_ref().is_none_or(|best| *loss < best.loss));
        if let Some(loss) = better {
            let mut tensors = BTreeMap::new();
            for p in self.network.parameters().trainable() {
                let value = self.trainer.parameter(&p.name, train::Weights::Last)?;
                tensors.insert(p.name.clone(), Tensor::from(&value));
            }
            self.best = Some(Best { step, loss, tensors });
        }
        // Where it was stopped between two points this one goes on, so that breaks leave no trace.
        if let Some(before) = self.points.pop_if(|before| !before.step.is_multiple_of(self.options.every)) {
            losses.splice(0..0, before.losses);
        }
        let lr = self.options.rate(step.saturating_sub(1));
        self.points.push(Point { step, losses, lr, validation });
        if let Some(folder) = &self.folder {
            if let Some(Best { step, loss, tensors }) = self.best.as_ref().filter(|_| better.is_some()) {
                let metadata = [(STEP.to_owned(), step.to_string()), (LOSS.to_owned(), loss.to_string())];
                let file = File { tensors: tensors.clone(), metadata: metadata.into() };
                file.write(&folder.join(BEST))?;
            }
            write(&folder.join(CURVE), &self.points)?;
            // Last: what it stands at is there.
            self.trainer.save(&folder.join(CHECKPOINT))?;
        }
        Ok(&self.points[self.points.len() - 1])
    }

    /// Goes on from the checkpoint of the folder, if there is one, and cuts the curve there.
    fn resume(&mut self) -> Result<(), ChronosError> {
        let Some(folder) = self.folder.clone().filter(|folder| folder.join(CHECKPOINT).exists()) else {
            return Ok(());
        };
        self.trainer.load(&folder.join(CHECKPOINT))?;
        let step = self.trainer.position()?;
        let path = folder.join(CURVE);
        self.points = read(&path)?;
        // The checkpoint is written last, and may be of an earlier step.
        self.points.retain(|point| point.step <= step || point.step - step < point.losses.len());
        if let Some(last) = self.points.last_mut().filter(|last| last.step > step) {
            last.losses.truncate(last.losses.len() - (last.step - step));
            (last.step, last.lr, last.validation) = (step, self.options.rate(step.saturating_sub(1)), None);
        }
        let path = folder.join(BEST);
        if self.validation.is_some() && path.exists() {
            let File { tensors, metadata } = File::read(&path)?;
            let damaged = |why: &str| ChronosError::Config { path: path.clone(), why: why.to_owned() };
            let step = metadata.get(STEP).and_then(|step| step.parse().ok());
            let loss = metadata.get(LOSS).and_then(|loss| loss.parse().ok());
            let (step, loss) = step.zip(loss).ok_or_else(|| damaged("its metadata has no step and loss"))?;
            for p in self.network.parameters().trainable() {
                if tensors.get(&p.name).is_none_or(|tensor| tensor.spec.shape != p.shape) {
                    return Err(damaged(&format!("{} is missing, or of another shape", p.name)));
                }
            }
            self.best = Some(Best { step, loss, tensors });
        }
        Ok(())
    }
}

/// The loss of each group of a batch, `[groups]`: the mean over its series of the authors' loss, of which covariates have none.
fn losses(cx: &Context<'_>, network: &Chronos2, batch: &Batch, form: Form) -> Result<Value, Error> {
    let (g, c) = (cx.graph, network.config());
    let Form { members, targets, known, patches, .. } = form;
    let given = ARRAYS.iter().map(|name| batch.get(name)).collect::<Result<Vec<_>, Error>>()?;
    let groups = g.shape(given[0]).dims()[0];
    // Of the series of each group some, all groups below each other.
    let part = |v: Value, first: usize, count: usize| {
        g.slice(g.reshape(v, [groups, members, g.shape(v).last()])?, 1, first, count)
    };
    let all = |v: Value| g.reshape(v, [groups * members, g.shape(v).last()]);
    let future = |v: Value| {
        let none = g.fill(g.spec(v).dtype, [1, 1, 1], 0.0)?;
        let none = g.broadcast_to(none, [groups, members - known, g.shape(v).last()])?;
        all(g.concat(&[none, part(v, members - known, known)?], 1)?)
    };
    let seen = Seen {
        context: all(given[0])?,
        known: all(given[1])?,
        future: if known > 0 { Some([future(given[2])?, future(given[3])?]) } else { None },
        patches,
        members,
        whole: false,
    };
    let ahead = network.forward(cx, &seen)?;
    g.full_precision(|| {
        let (next, told) = (all(given[2])?, all(given[3])?);
        let scaled = ahead.scale.scaled(g, next, told)?;
        let own = |v: Value| g.reshape(part(v, 0, targets)?, [groups * targets, g.shape(v).last()]);
        let (levels, rows) = (c.levels.len(), g.shape(next).last());
        let apart = g.reshape(ahead.quantiles, [groups, members, levels, rows])?;
        let quantiles = g.reshape(g.slice(apart, 1, 0, targets)?, [groups * targets, levels, rows])?;
        let each = quantile_loss(g, quantiles, [own(scaled)?, own(told)?], &c.levels)?;
        let sum = g.sum(g.reshape(each, [groups, targets])?, [1])?;
        g.affine(sum, 1.0 / members as f64, 0.0)
    })
}

/// Makes the folder, or checks that its training is of the same.
fn begin(folder: &Path, origin: &Origin) -> Result<(), ChronosError> {
    let path = folder.join(TRAINING);
    std::fs::create_dir_all(folder).map_err(|why| ChronosError::Write { path: folder.to_owned(), why })?;
    if !path.exists() {
        return write(&path, origin);
    }
    let before: Origin = read(&path)?;
    for (what, same) in [
        ("options", before.options == origin.options),
        ("weights", before.weights == origin.weights),
        ("series", before.series == origin.series),
        ("series of validation", before.validation == origin.validation),
    ] {
        if !same {
            return Err(ChronosError::OtherTraining { folder: folder.to_owned(), what });
        }
    }
    Ok(())
}

fn write(path: &Path, what: &impl Serialize) -> Result<(), ChronosError> {
    let failed = |why| ChronosError::Write { path: path.to_owned(), why };
    let text = serde_json::to_string(what).map_err(|why| failed(why.into()))?;
    files::replace(path, text.as_bytes()).map_err(failed)
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, ChronosError> {
    let text = files::read_text(path).map_err(|why| ChronosError::Read { path: path.to_owned(), why })?;
    serde_json::from_str(&text)
        .map_err(|e| ChronosError::Config { path: path.to_owned(), why: e.to_string() })
}
