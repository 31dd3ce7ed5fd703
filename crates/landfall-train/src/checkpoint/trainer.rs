//! The state of a [`Trainer`] in a file: to go on later, as if there had been no break.

use super::{CheckpointError, File, Tensor};
use crate::train::{Moment, PARAMETERS, Trainer};
use landfall::{Slab, Spec};
use std::path::Path;

/// The metadata entry that tells such a file from others.
const KIND: (&str, &str) = ("landfall", "trainer");

/// Tensors of a slab, by the names that they have in a file.
struct Written {
    /// With their specs.
    tensors: Vec<(String, Spec)>,
    /// What ranks share out, if they do: then the slab holds a part of the tensors.
    shared: Option<&'static Moment>,
}

/// What a trainer's steps write: parameters, moments, averages, cursors and reports. The file is the same with and without moments
/// that ranks share out.
fn written(trainer: &Trainer) -> Result<Vec<Written>, landfall::Error> {
    let spec = trainer.state.spec();
    let parameters = &spec.find_slab(PARAMETERS)?.1.entries;
    let slabs = spec.slabs().iter().filter(|slab| !slab.constant);
    let of = |slab: &Slab| {
        let shared = trainer.shared().iter().find(|moment| moment.slab() == slab.name);
        let of = |name, shape| (name, Spec::new(slab.dtype, shape));
        let tensors = match shared {
            None => slab.entries.iter().map(|e| of(e.name.clone(), e.shape)).collect(),
            Some(moment) => parameters.iter().map(|e| of(moment.entry(&e.name), e.shape)).collect(),
        };
        Written { tensors, shared }
    };
    Ok(slabs.map(of).collect())
}

impl Trainer {
    /// Writes everything that steps have changed to a safetensors file: [`Trainer::load`] goes on from there with the same bytes.
    /// Data and learning rates are not part of it. Where ranks share out the optimizer's state
    /// ([`shard_optimizer`](crate::train::TrainingOptions::shard_optimizer)) all must call it, each with a path of its own, and each
    /// writes all of the state.
    ///
    /// ```
    /// # use landfall::Engine;
    /// # use landfall_train::checkpoint::CheckpointError;
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Trainer, TrainingOptions};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 3, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// # let path = std::env::temp_dir().join(format!("landfall-trainer-{}.safetensors", std::process::id()));
    /// trainer.step()?;
    /// trainer.save(&path)?;
    /// trainer.step()?;
    /// trainer.load(&path)?;
    /// assert_eq!(trainer.position()?, 1);
    /// # std::fs::remove_file(&path).ok();
    /// # Ok::<(), CheckpointError>(())
    /// ```
    ///
    /// # Errors
    /// [`CheckpointError::Write`]; a device fault; an index out of range that a kernel flagged.
    pub fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        let mut file = File::default();
        for Written { tensors, shared } in written(self)? {
            let values = match shared {
                None => {
                    tensors.iter().map(|(name, _)| self.state.read_host(name)).collect::<Result<_, _>>()?
                }
                Some(moment) => self.read_kept(moment)?,
            };
            let named = tensors.into_iter().zip(&values);
            file.tensors.extend(named.map(|((name, _), value)| (name, Tensor::from(value))));
        }
        file.metadata.insert(KIND.0.to_owned(), KIND.1.to_owned());
        file.write(path)
    }

    /// Goes on from a file of [`Trainer::save`], of a trainer with the same parameters and optimizer, by any rank of any number of
    /// them. The file is checked whole before anything is written.
    ///
    /// # Errors
    /// A file that is none, or is damaged; tensors that are missing, of another shape, or of no entry of this trainer; a device fault.
    pub fn load(&mut self, path: &Path) -> Result<(), CheckpointError> {
        let file = File::read(path)?;
        if file.metadata.get(KIND.0).map(String::as_str) != Some(KIND.1) {
            return Err(CheckpointError::Metadata { path: path.to_owned(), name: KIND.0 });
        }
        let slabs = written(self)?;
        let entries: Vec<&(String, Spec)> = slabs.iter().flat_map(|slab| &slab.tensors).collect();
        let mut found = Vec::with_capacity(entries.len());
        for (name, spec) in &entries {
            let (path, name) = (path.to_owned(), name.clone());
            let expected = spec.to_string();
            match file.tensors.get(&name) {
                None => return Err(CheckpointError::Missing { path, name, expected }),
                Some(tensor) if tensor.spec != *spec => {
                    let found = tensor.spec.to_string();
                    return Err(CheckpointError::Shape { path, name, found, expected });
                }
                Some(tensor) => found.push(tensor.host().map_err(landfall::Error::from)?),
            }
        }
        if let Some(name) = file.tensors.keys().find(|name| !entries.iter().any(|(own, _)| own == *name)) {
            return Err(CheckpointError::Unknown { path: path.to_owned(), name: name.clone() });
        }
        let mut found = found.as_slice();
        for Written { tensors, shared } in &slabs {
            let (values, others) = found.split_at(tensors.len());
            found = others;
            match shared {
                None => (tensors.iter().zip(values))
                    .try_for_each(|((name, _), value)| self.state.write_host(name, value))?,
                Some(moment) => self.write_kept(moment, values)?,
            }
        }
        Ok(self.take_part()?)
    }
}
