//! The header of a file of weights, which is read before memory is taken for their values.

use super::error::ChronosError;
use crate::files;
use crate::models::chronos::Network;
use landfall::{DType, Shape};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

/// Bytes of a header at most, without tensors and for each tensor: several times what they are.
const HEADER: usize = 1 << 16;
const EACH: usize = 1 << 9;

/// Compares the names, dtypes and shapes of a file's tensors with those of the network, and its size with theirs.
pub(super) fn check(path: &Path, network: &Network) -> Result<(), ChronosError> {
    let unread = |why| ChronosError::Read { path: path.to_owned(), why };
    let broken = |why: String| ChronosError::Format { path: path.to_owned(), why };
    let mut file = files::open(path).map_err(unread)?;
    let size = file.metadata().map_err(unread)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|_| broken(format!("it has {size} bytes, and its header's length takes 8")))?;
    let length = u64::from_le_bytes(length);
    let tensors: usize = network.parameters().list().iter().map(|parameter| parameter.parts.len()).sum();
    let most = (HEADER + EACH * tensors) as u64;
    if length > most.min(size.saturating_sub(8)) {
        return Err(broken(format!(
            "its header has {length} bytes, of {size} of the file, and may have {most}"
        )));
    }
    let mut text = Vec::new();
    file.take(length).read_to_end(&mut text).map_err(unread)?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|why| broken(why.to_string()))?;
    let data = header.data_len() as u64;
    if size - 8 - length != data {
        return Err(broken(format!(
            "its tensors have {data} bytes, and {} follow its header",
            size - 8 - length
        )));
    }
    let refused = |why: String| ChronosError::Tensor { path: path.to_owned(), why };
    let mut known: BTreeSet<&str> = network.unread().iter().copied().collect();
    for parameter in network.parameters().list() {
        for name in &parameter.parts {
            known.insert(name.as_str());
            let shape = parameter.part();
            let info = header.info(name);
            let info = info
                .ok_or_else(|| refused(format!("tensor {name} is missing; the model has it as {shape}")))?;
            fits(name, info, shape).map_err(&refused)?;
        }
    }
    match header.offset_keys().into_iter().find(|name| !known.contains(name.as_str())) {
        Some(name) => Err(refused(format!("tensor {name} belongs to no parameter of the model"))),
        None => Ok(()),
    }
}

/// Whether a tensor has this shape and floats.
fn fits(name: &str, info: &TensorInfo, shape: Shape) -> Result<(), String> {
    if info.shape != shape.dims() {
        return Err(format!("tensor {name} is {:?}, the model has it as {shape}", info.shape));
    }
    float(name, info.dtype).map(drop)
}

/// The dtype of a tensor of floats.
pub(super) fn float(name: &str, theirs: Dtype) -> Result<DType, String> {
    let floats = [
        (Dtype::F32, DType::F32),
        (Dtype::F64, DType::F64),
        (Dtype::BF16, DType::BF16),
        (Dtype::F16, DType::F16),
    ];
    let own = floats.into_iter().find(|(dtype, _)| *dtype == theirs).map(|(_, own)| own);
    own.ok_or_else(|| format!("tensor {name} has dtype {theirs:?}; give floats"))
}
