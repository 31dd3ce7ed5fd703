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
        Self::from_safetensors(path, &bytes)
    }

    /// Reads the bytes of a safetensors file; `path` is what messages call it.
    ///
    /// # Errors
    /// [`CheckpointError::Format`], [`CheckpointError::Checksum`].
    pub fn from_safetensors(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let format = |why: String| CheckpointError::Format { path: path.to_owned(), why };
        let (size, header) = SafeTensors::read_metadata(bytes).map_err(|e| format(e.to_string()))?;
        // The header has been checked against the elements behind it, and its own size stands before it.
        let data = bytes.get(size_of::<u64>() + size..).unwrap_or_default();
        let mut out = Self::default();
        out.metadata.extend(header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        for (name, info) in header.tensors() {
            let known = DType::ALL.iter().copied().find(|&d| dtype(d) == info.dtype);
            let known = known.ok_or_else(|| format(format!("tensor {name} has dtype {:?}", info.dtype)))?;
            let shape = Shape::new(&info.shape)
                .ok_or_else(|| format(format!("tensor {name} has {} axes", info.shape.len())))?;
            let (start, end) = info.data_offsets;
            let bytes = data.get(start..end).unwrap_or_default().to_vec();
            out.tensors.insert(name, Tensor { spec: Spec { dtype: known, shape }, bytes });
        }
        match out.metadata.remove(CHECKSUM) {
            Some(sum) if sum != out.checksum() => Err(CheckpointError::Checksum { path: path.to_owned() }),
            Some(_) | None => Ok(out),
        }
    }
}
