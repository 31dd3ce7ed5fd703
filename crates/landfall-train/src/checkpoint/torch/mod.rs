//! State dicts of `torch.save`: a zip archive without compression, of one pickle and the bytes of each storage.
//!
//! The pickle is read by a machine that knows names, numbers, containers and tensors, and runs nothing ([`pickle`]).

mod pickle;
mod write;

use super::{CheckpointError, File, Tensor};
use landfall::{DType, Shape, Spec};
use pickle::{Storage, Value};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::Path;
use zip::{CompressionMethod, ZipArchive};

/// The first bytes of a zip archive.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

/// The first bytes of what `torch.save` wrote before version 1.6: a pickle of a large number.
pub(super) const OLD_MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

impl File {
    /// The file that `torch.save(model.state_dict(), path)` wrote; [`File::read`] recognises one and reads it too.
    /// Nothing in it is run: a pickle of anything but names and tensors is refused.
    ///
    /// ```
    /// use landfall::{DType, HostTensor};
    /// use landfall_train::checkpoint::{CheckpointError, File, Tensor};
    ///
    /// let mut file = File::default();
    /// let weight = HostTensor::new(DType::F32, [2, 2], vec![1.0, 2.0, 3.0, 4.0]).map_err(landfall::Error::from)?;
    /// file.tensors.insert("weight".to_owned(), Tensor::from(&weight));
    /// let path = std::env::temp_dir().join(format!("landfall-torch-{}.pth", std::process::id()));
    /// file.write_torch(&path)?; // torch.load(path, weights_only=True)
    /// assert_eq!(File::read(&path)?, file);
    /// # std::fs::remove_file(&path).ok();
    /// # Ok::<(), CheckpointError>(())
    /// ```
    ///
    /// # Errors
    /// [`CheckpointError::Torch`] for a damaged archive, and for what is no state dict.
    pub fn from_torch(path: &Path, bytes: Vec<u8>) -> Result<Self, CheckpointError> {
        let tensors = read(bytes).map_err(|why| CheckpointError::Torch { path: path.to_owned(), why })?;
        Ok(Self { tensors, metadata: BTreeMap::new() })
    }
}

type Archive = ZipArchive<Cursor<Vec<u8>>>;

/// One record of the archive.
fn record(archive: &mut Archive, name: &str) -> Result<Vec<u8>, String> {
    let mut entry = archive.by_name(name).map_err(|e| format!("its record {name}: {e}"))?;
    if entry.compression() != CompressionMethod::Stored {
        return Err(format!("its record {name} is compressed, which torch.save does not do"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(|e| format!("its record {name}: {e}"))?;
    Ok(bytes)
}

fn read(bytes: Vec<u8>) -> Result<BTreeMap<String, Tensor>, String> {
    let size = bytes.len();
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| e.to_string())?;
    let names = archive.file_names().filter_map(|name| name.ok().map(|name| name.into_owned()));
    let pickle = names.into_iter().find(|name| name.ends_with("/data.pkl"));
    let pickle = pickle.ok_or("the archive has no record data.pkl")?;
    let folder = pickle.trim_end_matches("data.pkl").to_owned();
    let order = format!("{folder}byteorder");
    if archive.index_for_name(&order).is_some() {
        let order = record(&mut archive, &order)?;
        if order.trim_ascii() != b"little" {
            let order = String::from_utf8_lossy(&order).into_owned();
            return Err(format!("its byte order is {order:?}; save it on a little-endian machine"));
        }
    }
    let Value::Dict(entries) = pickle::load(&record(&mut archive, &pickle)?)? else {
        return Err("it holds no dict of tensors; save model.state_dict()".to_owned());
    };
    let (mut tensors, mut storages) = (BTreeMap::new(), BTreeMap::<String, Vec<u8>>::new());
    // Honest files have each element once; one that views its storages over and over would fill the memory.
    let (mut held, mut viewed) = (0usize, 0usize);
    for (name, value) in entries {
        let Value::Str(name) = name else { return Err("a key of its dict is no text".to_owned()) };
        let Value::Tensor(tensor) = value else {
            return Err(format!(
                "its entry `{name}` is {}, no tensor; save model.state_dict()",
                value.what()
            ));
        };
        let Storage { key, dtype, elements } = &*tensor.storage;
        if !storages.contains_key(&**key) {
            let bytes = record(&mut archive, &format!("{folder}data/{key}"))?;
            if Some(bytes.len()) != elements.checked_mul(dtype.size()) {
                let bytes = bytes.len();
                return Err(format!("storage {key} has {bytes} bytes, and {elements} elements of {dtype}"));
            }
            held += bytes.len();
            storages.insert(key.to_string(), bytes);
        }
        let shape = Shape::new(&tensor.size).ok_or_else(|| {
            format!("tensor {name} has {} axes, more than are supported", tensor.size.len())
        })?;
        viewed = viewed.saturating_add(tensor.elements().unwrap_or(usize::MAX).saturating_mul(dtype.size()));
        if held > size || viewed > held {
            return Err(format!(
                "tensor {name}: the tensors up to it have {viewed} bytes, their storages {held}"
            ));
        }
        let bytes = storages.get(&**key).map_or(&[][..], Vec::as_slice);
        let bytes = elements_of(&tensor, bytes, *dtype).ok_or_else(|| {
            format!(
                "tensor {name} of size {:?}, strides {:?} and offset {} is not within its storage of {elements} elements",
                tensor.size, tensor.stride, tensor.offset
            )
        })?;
        let spec = Spec { dtype: *dtype, shape };
        if tensors.insert(name.to_string(), Tensor { spec, bytes }).is_some() {
            return Err(format!("tensor {name} is there twice"));
        }
    }
    Ok(tensors)
}

/// The elements of a view of a storage, row-major; none where it reaches outside.
fn elements_of(tensor: &pickle::Tensor, storage: &[u8], dtype: DType) -> Option<Vec<u8>> {
    let (count, width) = (tensor.elements()?, dtype.size());
    let mut bytes = Vec::with_capacity(count.checked_mul(width)?);
    let mut index = vec![0usize; tensor.size.len()];
    for _ in 0..count {
        let mut at = tensor.offset;
        for (i, stride) in index.iter().zip(&tensor.stride) {
            at = at.checked_add(i.checked_mul(*stride)?)?;
        }
        let start = at.checked_mul(width)?;
        bytes.extend_from_slice(storage.get(start..start.checked_add(width)?)?);
        for (i, size) in index.iter_mut().zip(&tensor.size).rev() {
            *i += 1;
            if *i < *size {
                break;
            }
            *i = 0;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
