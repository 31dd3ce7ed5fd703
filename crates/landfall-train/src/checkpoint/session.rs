//! A session to a file and back.

use super::{CheckpointError, File, Tensor};
use crate::nn::{Parameter, Parameters};
use crate::train::{KEPT, LOSS_SCALE, Session};
use landfall::{DType, Error, HostTensor, Shape, Spec};
use std::collections::BTreeSet;
use std::path::Path;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Updates done.
    pub step: usize,
    /// Epoch that comes next, from 0.
    pub epoch: usize,
    /// Batch of it that comes next, from 0.
    pub batch: usize,
    /// Best validation error so far, and the step after which it was measured.
    pub best: Option<(f64, usize)>,
    /// Validations since that one.
    pub since_best: usize,
}

/// The entry that counts the validations since the best one.
const SINCE_BEST: &str = "validations since best";

impl Progress {
    /// The step of the best validation; of a run without one, the last step.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.best.map_or(self.step, |(_, step)| step)
    }
}

/// Refuses a value that no reader would take.
fn finite(name: &str, value: HostTensor, step: usize) -> Result<HostTensor, CheckpointError> {
    match value.data.iter().enumerate().find(|(_, x)| !x.is_finite()) {
        Some((element, &value)) => {
            Err(CheckpointError::Diverged { step, name: name.to_owned(), element, value })
        }
        None => Ok(value),
    }
}

/// Writes a session's weights, and where it is to be `resumable` all that a resumed run needs. Of ranks that share out the optimizer's
/// state ([`Session::shares_state`]) all must then call it, and each writes the same file as without: any number of ranks goes on from
/// it.
///
/// ```
/// # use landfall::Engine;
/// # use landfall_train::checkpoint;
/// # use landfall_train::data::{Split, synthetic};
/// # use landfall_train::models::{NLinear, NLinearConfig};
/// # use landfall_train::train::{Dataset, Session, TrainingOptions};
/// # let (dataset, _) = Dataset::forecast(synthetic::demo(300, 1, 7)?, Split::ratio(0.7, 0.1, 0.2)?, 12, 4)?;
/// # let new = || -> Result<Session, Box<dyn std::error::Error>> {
/// #     let model = NLinear::new(NLinearConfig { context: 12, horizon: 4, outputs: 1 })?;
/// #     Ok(Session::new(&Engine::cpu()?, Box::new(model), &dataset, 12, 4, TrainingOptions::default())?)
/// # };
/// # let (mut session, mut other) = (new()?, new()?);
/// use landfall_train::checkpoint::{File, Progress};
/// # let path = std::env::temp_dir().join(format!("landfall-save-{}.safetensors", std::process::id()));
/// session.step()?;
/// let progress = Progress { step: 1, batch: 1, ..Progress::default() };
/// checkpoint::save(&path, &session, "", &progress, true)?;
///
/// // Another process goes on from there, with the same bytes.
/// let resumed = checkpoint::load_checkpoint(&path, &File::read(&path)?, &mut other)?;
/// assert_eq!(resumed, progress);
/// (session.step()?, other.step()?);
/// assert_eq!(session.state.read::<f32>("Linear.weight")?, other.state.read::<f32>("Linear.weight")?);
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CheckpointError::Write`]; [`CheckpointError::Diverged`] for a value that is not finite, which nothing could read; a device
/// fault; a rank that does not come.
pub fn save(
    path: &Path,
    session: &Session,
    configuration: &str,
    progress: &Progress,
    resumable: bool,
) -> Result<(), CheckpointError> {
    snapshot(session, configuration, progress, resumable)?.write(path)
}

/// What [`save`] writes.
///
/// # Errors
/// As [`save`], but for those of writing.
pub fn snapshot(
    session: &Session,
    configuration: &str,
    progress: &Progress,
    resumable: bool,
) -> Result<File, CheckpointError> {
    let mut file = File::default();
    let p = session.model().parameters();
    for parameter in p.list() {
        let value = finite(&parameter.name, session.state.read_host(&parameter.name)?, progress.step)?;
        put_parts(&mut file, parameter, "", &value);
    }
    for moment in session.kept().filter(|_| resumable) {
        for (parameter, value) in p.trainable().into_iter().zip(session.read_kept(moment)?) {
            let name = format!("{}{}", moment.checkpoint_prefix, parameter.name);
            put_parts(&mut file, parameter, moment.checkpoint_prefix, &finite(&name, value, progress.step)?);
        }
    }
    for b in p.buffers() {
        let value = finite(&b.name, session.state.read_host(&b.name)?, progress.step)?;
        file.tensors.insert(b.name.clone(), Tensor::from(&value));
    }
    let scalar =
        |dtype, value| Tensor::from(&HostTensor::from_fn(Spec::new(dtype, Shape::SCALAR), |_| value));
    for (name, value) in p.constants() {
        file.tensors.insert(name.clone(), scalar(session.options().dtype.accumulate(), *value));
    }
    for name in p.counters() {
        file.tensors.insert(name.clone(), scalar(DType::I64, progress.step as f64));
    }
    if resumable && let Some([scale, run]) = session.loss_scale()? {
        file.metadata.insert(LOSS_SCALE.to_owned(), format!("{scale:?} {run:?}"));
    }
    let entries = [
        ("format", "landfall".to_owned()),
        ("configuration", configuration.to_owned()),
        ("step", progress.step.to_string()),
        ("epoch", progress.epoch.to_string()),
        ("batch", progress.batch.to_string()),
        ("seed", session.options().seed.to_string()),
    ];
    file.metadata.extend(entries.map(|(k, v)| (k.to_owned(), v)));
    if let Some((error, step)) = progress.best {
        file.metadata.insert("best".to_owned(), format!("{error:?} {step}"));
        file.metadata.insert(SINCE_BEST.to_owned(), progress.since_best.to_string());
    }
    Ok(file)
}

/// Writes a session's weights and nothing else; [`read_weights`] reads them back.
///
/// ```
/// # use landfall::Engine;
/// # use landfall_train::checkpoint;
/// # use landfall_train::data::{Split, synthetic};
/// # use landfall_train::models::{NLinear, NLinearConfig};
/// # use landfall_train::train::{Dataset, Session, TrainingOptions};
/// # let (dataset, _) = Dataset::forecast(synthetic::demo(300, 1, 7)?, Split::ratio(0.7, 0.1, 0.2)?, 12, 4)?;
/// # let new = || -> Result<Session, Box<dyn std::error::Error>> {
/// #     let model = NLinear::new(NLinearConfig { context: 12, horizon: 4, outputs: 1 })?;
/// #     Ok(Session::new(&Engine::cpu()?, Box::new(model), &dataset, 12, 4, TrainingOptions::default())?)
/// # };
/// # let (mut session, mut other) = (new()?, new()?);
/// # let path = std::env::temp_dir().join(format!("landfall-weights-{}.safetensors", std::process::id()));
/// session.step()?;
/// checkpoint::write_weights(&path, &session)?;
/// checkpoint::read_weights(&path, &mut other)?;
/// assert_eq!(session.state.read::<f32>("Linear.weight")?, other.state.read::<f32>("Linear.weight")?);
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`save`].
pub fn write_weights(path: &Path, session: &Session) -> Result<(), CheckpointError> {
    save(path, session, "", &Progress::default(), false)
}

/// Reads weights into a session: those of [`write_weights`], of a run, or of the official implementation.
///
/// # Errors
/// A file that cannot be read, or that holds another model's tensors.
pub fn read_weights(path: &Path, session: &mut Session) -> Result<(), CheckpointError> {
    load_weights(path, &File::read(path)?, session)
}

/// A tensor as the equal parts along axis 0 that checkpoints hold.
fn put_parts(file: &mut File, parameter: &Parameter, prefix: &str, value: &HostTensor) {
    let shape = part_shape(parameter);
    let size = shape.elements().max(1);
    for (name, part) in parameter.parts.iter().zip(value.data.chunks(size)) {
        let part = HostTensor::from_fn(Spec { dtype: value.spec.dtype, shape }, |i| part[i]);
        file.tensors.insert(format!("{prefix}{name}"), Tensor::from(&part));
    }
}

fn part_shape(parameter: &Parameter) -> Shape {
    match parameter.parts.len() {
        0 | 1 => parameter.shape,
        n => parameter.shape.with(0, parameter.shape.dims()[0] / n),
    }
}

/// Loads weights and running statistics from a file of the same model: a checkpoint of ours or of the official
/// implementation. Step counters may be of any dtype, and the official constant attention scale must be ours.
///
/// # Errors
/// The first tensor that is missing, unknown, of another shape or not finite; then the session is as it was before.
pub fn load_weights(path: &Path, file: &File, session: &mut Session) -> Result<(), CheckpointError> {
    let p = session.model().parameters().clone();
    let mut values = Vec::new();
    for parameter in p.list() {
        values.push((parameter.name.clone(), get_parts(path, file, parameter, "")?));
    }
    for b in p.buffers() {
        values.push((b.name.clone(), get(path, file, &b.name, b.shape)?));
    }
    check_rest(path, file, &p)?;
    for (name, value) in values {
        session.state.write_host(&name, &value)?;
    }
    Ok(())
}

/// Loads everything that [`save`] wrote, so that the run goes on with the same bytes.
///
/// # Errors
/// As [`load_weights`]; [`CheckpointError::Metadata`] when the file is not a checkpoint to resume from.
pub fn load_checkpoint(path: &Path, file: &File, session: &mut Session) -> Result<Progress, CheckpointError> {
    let progress = progress(path, file, session.steps_per_epoch())?;
    let scale = match session.loss_scale()? {
        Some(_) => Some(loss_scale(path, file)?),
        None => None,
    };
    let p = session.model().parameters().clone();
    let mut moments = Vec::new();
    for moment in session.kept() {
        let values = p.trainable().into_iter().map(|p| get_parts(path, file, p, moment.checkpoint_prefix));
        moments.push((moment, values.collect::<Result<Vec<_>, _>>()?));
    }
    load_weights(path, file, session)?;
    for (moment, values) in moments {
        session.write_kept(moment, &values)?;
    }
    if let Some(scale) = scale {
        session.state.write(LOSS_SCALE, &scale)?;
    }
    session.seek(progress.step, progress.epoch, progress.batch)?;
    Ok(progress)
}

fn progress(path: &Path, file: &File, per_epoch: usize) -> Result<Progress, CheckpointError> {
    let wrong = |name| CheckpointError::Metadata { path: path.to_owned(), name };
    // Counters are tensors too, of numbers that an f64 holds; a larger one would overflow where the run goes on.
    let counted = |n: &usize| *n as u64 <= 1 << f64::MANTISSA_DIGITS;
    let number = |name: &'static str| {
        file.metadata.get(name).and_then(|t| t.parse().ok()).filter(counted).ok_or_else(|| wrong(name))
    };
    let best = match file.metadata.get("best").map(|t| t.split_once(' ')) {
        None => None,
        Some(parts) => {
            let parts = parts.and_then(|(e, s)| Some((e.parse().ok()?, s.parse().ok()?)));
            Some(parts.filter(|(error, _): &(f64, usize)| error.is_finite()).ok_or_else(|| wrong("best"))?)
        }
    };
    let step: usize = number("step")?;
    let since_best = match (file.metadata.get(SINCE_BEST), best) {
        (Some(_), _) => number(SINCE_BEST)?,
        // Written before validations were counted: then there was one an epoch.
        (None, Some((_, best))) => (step - step.min(best)) / per_epoch.max(1),
        (None, None) => 0,
    };
    Ok(Progress { step, epoch: number("epoch")?, batch: number("batch")?, best, since_best })
}

fn loss_scale(path: &Path, file: &File) -> Result<[f32; 2], CheckpointError> {
    let (scale, run) = file.metadata.get(LOSS_SCALE).and_then(|t| t.split_once(' ')).unzip();
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<f32>().ok()).filter(|x| x.is_finite());
    match (number(scale).filter(|&s| s > 0.0), number(run)) {
        (Some(scale), Some(run)) => Ok([scale, run]),
        _ => Err(CheckpointError::Metadata { path: path.to_owned(), name: LOSS_SCALE }),
    }
}

fn get(path: &Path, file: &File, name: &str, shape: Shape) -> Result<HostTensor, CheckpointError> {
    let path = path.to_owned();
    let Some(tensor) = file.tensors.get(name) else {
        return Err(CheckpointError::Missing { path, name: name.to_owned(), expected: shape.to_string() });
    };
    if tensor.spec.shape != shape || !tensor.spec.dtype.is_float() {
        let (found, expected) = (tensor.spec.to_string(), shape.to_string());
        return Err(CheckpointError::Shape { path, name: name.to_owned(), found, expected });
    }
    let host = tensor.host().map_err(Error::from)?;
    match host.data.iter().position(|x| !x.is_finite()) {
        Some(element) => {
            let value = host.data[element];
            Err(CheckpointError::NotFinite { path, name: name.to_owned(), element, value })
        }
        None => Ok(host),
    }
}

fn get_parts(
    path: &Path,
    file: &File,
    parameter: &Parameter,
    prefix: &str,
) -> Result<HostTensor, CheckpointError> {
    let shape = part_shape(parameter);
    let (mut dtype, mut data) = (DType::F64, Vec::new());
    for name in &parameter.parts {
        let part = get(path, file, &format!("{prefix}{name}"), shape)?;
        dtype = part.spec.dtype;
        data.extend(part.data);
    }
    Ok(HostTensor::new(dtype, parameter.shape, data).map_err(Error::from)?)
}

/// Everything in the file must be something that the model knows.
fn check_rest(path: &Path, file: &File, p: &Parameters) -> Result<(), CheckpointError> {
    let known: BTreeSet<&str> = (p.list().iter().flat_map(|p| p.parts.iter()).map(String::as_str))
        .chain(p.buffers().iter().map(|b| b.name.as_str()))
        .collect();
    for (name, tensor) in &file.tensors {
        let bare = KEPT.iter().find_map(|m| name.strip_prefix(m.checkpoint_prefix)).unwrap_or(name);
        if known.contains(bare) || p.counters().contains(name) {
            continue;
        }
        let Some((_, expected)) = p.constants().iter().find(|(n, _)| n == name) else {
            return Err(CheckpointError::Unknown { path: path.to_owned(), name: name.clone() });
        };
        let found = tensor.host().map_err(Error::from)?.data.first().copied().unwrap_or(f64::NAN);
        if (found - expected).abs() > 1e-6 * expected.abs() || found.is_nan() {
            return Err(CheckpointError::Constant {
                path: path.to_owned(),
                name: name.clone(),
                found,
                expected: *expected,
            });
        }
    }
    Ok(())
}
