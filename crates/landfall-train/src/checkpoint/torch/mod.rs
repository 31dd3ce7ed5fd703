//! State dicts of `torch.save`: a zip archive without compression, of one pickle and the bytes of each storage.
//!
//! The pickle is read by a machine that knows names, numbers, containers and tensors, and runs nothing ([`pickle`]).

mod pickle;
mod write;

use super::{CheckpointError, File, Tensor};
use landfall::{DType, Layout, Rule, Shape, Spec};
use pickle::{Storage, Value};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{Cursor, Read};
use std::path::Path;
use zip::{CompressionMethod, ZipArchive};

/// The first bytes of a zip archive.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

/// The number that the first pickle of a file is which `torch.save` wrote before version 1.6, or writes when it is asked to.
const OLD_MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

/// Whether a file is one of the form that torch had before version 1.6, of any protocol of pickles.
pub(super) fn is_old(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(32)).unwrap_or(bytes);
    head.first() == Some(&0x80) && head.windows(OLD_MAGIC.len()).any(|part| part == OLD_MAGIC)
}

/// How many bytes the tensors of a file may have together: tied weights and views that overlap have more than their storages,
/// and a file of a few bytes that views them over and over would fill the memory.
const TIMES: usize = 32;
const ROOM: usize = 64 << 20;

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
    let (mut held, mut viewed, most) = (0usize, 0usize, size.saturating_mul(TIMES).saturating_add(ROOM));
    for (name, value) in entries {
        let Value::Str(name) = name else { return Err("a key of its dict is no text".to_owned()) };
        let Value::Tensor(tensor) = value else {
            return Err(format!(
                "its entry `{name}` is {}, no tensor; save model.state_dict()",
                value.what()
            ));
        };
        let Storage { key, dtype, elements } = &*tensor.storage;
        let stored = match storages.entry(key.to_string()) {
            Entry::Occupied(stored) => stored.into_mut(),
            Entry::Vacant(place) => {
                let bytes = record(&mut archive, &format!("{folder}data/{key}"))?;
                held += bytes.len();
                if held > size {
                    return Err(format!("its storages have {held} bytes, and the file {size}"));
                }
                place.insert(bytes)
            }
        };
        if Some(stored.len()) != elements.checked_mul(dtype.size()) {
            let bytes = stored.len();
            return Err(format!("storage {key} has {bytes} bytes, and {elements} elements of {dtype}"));
        }
        let (spec, layout) = place(&name, &tensor)?;
        viewed = viewed.saturating_add(spec.bytes());
        if viewed > most {
            return Err(format!(
                "tensor {name}: the tensors up to it have {viewed} bytes, and those of a file of {size} bytes at most {most} here; \
                 load it in Python and save copies of them"
            ));
        }
        let mut bytes = elements_of(&layout, stored, dtype.size());
        if tensor.negative {
            negate(*dtype, &mut bytes)
                .map_err(|()| format!("tensor {name} is a negative view of {dtype}, which has no sign"))?;
        }
        if tensors.insert(name.to_string(), Tensor { spec, bytes }).is_some() {
            return Err(format!("tensor {name} is there twice"));
        }
    }
    Ok(tensors)
}

/// What a tensor is, and where its elements lie in its storage.
fn place(name: &str, tensor: &pickle::Tensor) -> Result<(Spec, Layout), String> {
    let Storage { dtype, elements, .. } = &*tensor.storage;
    let shape = Shape::new(&tensor.size)
        .ok_or_else(|| format!("tensor {name} has {} axes, more than are supported", tensor.size.len()))?;
    let layout = match Layout::strided(shape, &tensor.stride, tensor.offset) {
        Ok(layout) if shape.elements() == 0 || layout.span().end <= *elements => layout,
        Err(rule @ Rule::TooLarge { .. }) => return Err(format!("tensor {name}: {rule}")),
        Ok(_) | Err(_) => {
            return Err(format!(
                "tensor {name} of size {:?}, strides {:?} and offset {} is not within its storage of {elements} elements",
                tensor.size, tensor.stride, tensor.offset
            ));
        }
    };
    Ok((Spec { dtype: *dtype, shape }, layout))
}

/// The elements of a view that lies within its storage, row-major.
fn elements_of(layout: &Layout, storage: &[u8], width: usize) -> Vec<u8> {
    let (count, span) = (layout.shape().elements(), layout.span());
    if count == 0 {
        return Vec::new();
    }
    if layout.is_contiguous() {
        return storage[span.start * width..span.end * width].to_vec();
    }
    let (row, step) = (layout.shape().last(), layout.strides().last().copied().unwrap_or(1));
    let mut bytes = Vec::with_capacity(count * width);
    for first in (0..count).step_by(row.max(1)).map(|flat| layout.index_flat(flat)) {
        for at in (0..row).map(|j| (first + j * step) * width) {
            bytes.extend_from_slice(&storage[at..at + width]);
        }
    }
    bytes
}

/// Negates elements as torch does where a view has its negative bit: of a float the sign, whatever else it is.
fn negate(dtype: DType, bytes: &mut [u8]) -> Result<(), ()> {
    fn each<const N: usize>(bytes: &mut [u8], negative: impl Fn([u8; N]) -> [u8; N]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|element| *element = negative(*element));
    }
    match dtype {
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 => {
            bytes.iter_mut().skip(dtype.size() - 1).step_by(dtype.size()).for_each(|last| *last ^= 0x80);
        }
        DType::I32 => each(bytes, |b| i32::from_le_bytes(b).wrapping_neg().to_le_bytes()),
        DType::I64 => each(bytes, |b| i64::from_le_bytes(b).wrapping_neg().to_le_bytes()),
        DType::U8 => each(bytes, |b| u8::from_le_bytes(b).wrapping_neg().to_le_bytes()),
        DType::Bool => return Err(()),
    }
    Ok(())
}
