//! A safetensors file: named tensors and text metadata, read whole and written so that a reader never sees half of it.

use super::CheckpointError;
use crate::files;
use landfall::{DType, HostTensor, OpError, Spec};
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// One tensor of a file: its spec and its elements' bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Dtype and shape.
    pub spec: Spec,
    /// Elements, row-major, little-endian.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// The elements as `f64`.
    ///
    /// # Errors
    /// The bytes must be as many as the spec says.
    pub fn host(&self) -> Result<HostTensor, OpError> {
        HostTensor::from_bytes(self.spec, &self.bytes)
    }
}

impl From<&HostTensor> for Tensor {
    fn from(host: &HostTensor) -> Self {
        Self { spec: host.spec, bytes: host.to_bytes() }
    }
}

/// The contents of a checkpoint file.
///
/// ```
/// use landfall::{DType, HostTensor};
/// use landfall_train::checkpoint::{CheckpointError, File, Tensor};
///
/// let mut file = File::default();
/// let weight = HostTensor::new(DType::F32, [2, 2], vec![1.0, 2.0, 3.0, 4.0]).map_err(landfall::Error::from)?;
/// file.tensors.insert("weight".to_owned(), Tensor::from(&weight));
/// file.metadata.insert("format".to_owned(), "an example".to_owned());
/// let path = std::env::temp_dir().join(format!("landfall-file-{}.safetensors", std::process::id()));
/// file.write(&path)?;
/// let read = File::read(&path)?;
/// assert_eq!(read, file);
/// assert_eq!(read.tensors["weight"].host().map_err(landfall::Error::from)?.data, [1.0, 2.0, 3.0, 4.0]);
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), CheckpointError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct File {
    /// Tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Text entries by name.
    pub metadata: BTreeMap<String, String>,
}

/// The header's entry with the metadata.
const METADATA: &str = "__metadata__";

/// The metadata entry with the checksum.
pub(super) const CHECKSUM: &str = "sha256";

pub(super) fn dtype(d: DType) -> Dtype {
    match d {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::BF16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    }
}

impl File {
    /// Writes the file: to a temporary one beside it, synced, then renamed over it. A failure at any point leaves what
    /// was there before.
    ///
    /// # Errors
    /// [`CheckpointError::Write`], also for a name that the format keeps for itself.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let failed = |why: std::io::Error| CheckpointError::Write { path: path.to_owned(), why };
        files::replace(path, &self.to_bytes().map_err(|why| failed(std::io::Error::other(why)))?)
            .map_err(failed)
    }

    /// SHA-256 of metadata and tensors, in hexadecimal digits: of each entry its name, value or spec, and elements, each
    /// after its length in bytes.
    pub(super) fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for (name, value) in &self.metadata {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        for (name, tensor) in &self.tensors {
            add(name.as_bytes());
            add(tensor.spec.to_string().as_bytes());
            add(&tensor.bytes);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The file's bytes. Equal contents have equal bytes: the library writes a hash map's entries in an order of its own
    /// each time, so the header is written again with its entries sorted.
    ///
    /// # Errors
    /// A name that the format keeps for itself, in words.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        // Where the format has an entry of its own, one of the caller's would be lost, or the file not be read again.
        if self.tensors.contains_key(METADATA) {
            return Err(format!(
                "a safetensors file has no tensor named {METADATA}, its own entry for text; rename it"
            ));
        }
        if self.metadata.contains_key(CHECKSUM) {
            return Err(format!(
                "its metadata has an entry {CHECKSUM}, which is the file's checksum; rename it"
            ));
        }
        let mut views = Vec::with_capacity(self.tensors.len());
        for (name, t) in &self.tensors {
            let view = TensorView::new(dtype(t.spec.dtype), t.spec.shape.dims().to_vec(), &t.bytes);
            views.push((name, view.map_err(|e| e.to_string())?));
        }
        let written = safetensors::serialize(views, None).map_err(|e| e.to_string())?;
        let (length, rest) = written.split_first_chunk().ok_or("no header was written")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|e| e.to_string())?;
        let (header, data) = rest.split_at_checked(length).ok_or("no whole header was written")?;
        let mut header: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(header).map_err(|e| e.to_string())?;
        let mut metadata = self.metadata.clone();
        metadata.insert(CHECKSUM.to_owned(), self.checksum());
        header.insert(METADATA.to_owned(), serde_json::json!(metadata));
        let mut header = serde_json::to_vec(&header).map_err(|e| e.to_string())?;
        // The format's own rule: the data begins at a multiple of 8 bytes, and spaces fill the gap.
        header.resize(header.len().next_multiple_of(8), b' ');
        Ok([&(header.len() as u64).to_le_bytes(), header.as_slice(), data].concat())
    }
}
