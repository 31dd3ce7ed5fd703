//! Reads a file of tensors, whichever of the forms it has.

use super::file::{CHECKSUM, File, Tensor, dtype};
use super::{CheckpointError, torch};
use crate::files;
use landfall::{DType, Shape, Spec};
use safetensors::tensor::SafeTensors;
use std::path::Path;

impl File {
    /// Reads a safetensors file, or a state dict of `torch.save` ([`File::from_torch`]). A checksum, which
    /// [`File::write`] adds, is checked; files of other programs have none.
    ///
    /// # Errors
    /// [`CheckpointError::Read`], [`CheckpointError::Format`] or [`CheckpointError::Torch`] for a truncated or foreign
    /// file, [`CheckpointError::Checksum`] where a byte of names, metadata or elements has changed.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let bytes = files::read(path).map_err(|why| CheckpointError::Read { path: path.to_owned(), why })?;
        if bytes.starts_with(torch::MAGIC) {
            return Self::from_torch(path, bytes);
        }
        if torch::is_old(&bytes) {
            let why = "its format is that of torch before 1.6; load it there and save it again".to_owned();
            return Err(CheckpointError::Torch { path: path.to_owned(), why });
        }
        let format = |why: String| CheckpointError::Format { path: path.to_owned(), why };
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| format(e.to_string()))?;
        let parsed = SafeTensors::deserialize(&bytes).map_err(|e| format(e.to_string()))?;
        let mut out = Self::default();
        out.metadata.extend(header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        for (name, view) in parsed.tensors() {
            let known = DType::ALL.iter().copied().find(|&d| dtype(d) == view.dtype());
            let known = known.ok_or_else(|| format(format!("tensor {name} has dtype {:?}", view.dtype())))?;
            let shape = Shape::new(view.shape())
                .ok_or_else(|| format(format!("tensor {name} has {} axes", view.shape().len())))?;
            out.tensors
                .insert(name, Tensor { spec: Spec { dtype: known, shape }, bytes: view.data().to_vec() });
        }
        match out.metadata.remove(CHECKSUM) {
            Some(sum) if sum != out.checksum() => Err(CheckpointError::Checksum { path: path.to_owned() }),
            Some(_) | None => Ok(out),
        }
    }
}
