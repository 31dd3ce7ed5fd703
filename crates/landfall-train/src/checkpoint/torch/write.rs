//! Writes what `torch.load` reads.

use super::super::{CheckpointError, File};
use crate::files::replace;
use landfall::DType;
use std::io::{Cursor, Write};
use std::path::Path;
use zip::write::{SimpleFileOptions, ZipWriter};
use zip::{CompressionMethod, DateTime};

/// The folder of the records.
const FOLDER: &str = "archive";

impl File {
    /// Writes the tensors as `torch.save(state_dict, path)` does: whole or not at all, as [`File::write`]. Equal tensors
    /// have equal bytes. The metadata has no place there.
    ///
    /// # Errors
    /// [`CheckpointError::Write`].
    pub fn write_torch(&self, path: &Path) -> Result<(), CheckpointError> {
        let failed = |why: std::io::Error| CheckpointError::Write { path: path.to_owned(), why };
        let bytes = archive(self).map_err(|why| failed(std::io::Error::other(why)))?;
        replace(path, &bytes).map_err(failed)
    }
}

fn archive(file: &File) -> Result<Vec<u8>, String> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    // torch aligns storages to 64 bytes, so that they can be mapped.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .with_alignment(64);
    let mut put = |name: &str, bytes: &[u8]| -> Result<(), String> {
        zip.start_file(format!("{FOLDER}/{name}"), options).map_err(|e| e.to_string())?;
        zip.write_all(bytes).map_err(|e| e.to_string())
    };
    put("data.pkl", &pickle(file)?)?;
    put("byteorder", b"little")?;
    for (number, tensor) in file.tensors.values().enumerate() {
        put(&format!("data/{number}"), &tensor.bytes)?;
    }
    put("version", b"3\n")?;
    Ok(zip.finish().map_err(|e| e.to_string())?.into_inner())
}

const fn storage(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "FloatStorage",
        DType::F64 => "DoubleStorage",
        DType::F16 => "HalfStorage",
        DType::BF16 => "BFloat16Storage",
        DType::I32 => "IntStorage",
        DType::I64 => "LongStorage",
        DType::U8 => "ByteStorage",
        DType::Bool => "BoolStorage",
    }
}

/// A dict of names and tensors, in protocol 2. Tensor number i views all of storage i.
fn pickle(file: &File) -> Result<Vec<u8>, String> {
    let mut out = b"\x80\x02}(".to_vec();
    let int = |out: &mut Vec<u8>, n: usize| -> Result<(), String> {
        let n = i64::try_from(n).map_err(|e| e.to_string())?;
        out.extend(b"\x8a\x08");
        out.extend(n.to_le_bytes());
        Ok(())
    };
    let text = |out: &mut Vec<u8>, text: &str| -> Result<(), String> {
        out.push(b'X');
        out.extend(u32::try_from(text.len()).map_err(|e| e.to_string())?.to_le_bytes());
        out.extend(text.as_bytes());
        Ok(())
    };
    for (number, (name, tensor)) in file.tensors.iter().enumerate() {
        let (shape, elements) = (tensor.spec.shape, tensor.spec.shape.elements());
        text(&mut out, name)?;
        out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut out, "storage")?;
        out.extend(format!("ctorch\n{}\n", storage(tensor.spec.dtype)).bytes());
        text(&mut out, &number.to_string())?;
        text(&mut out, "cpu")?;
        int(&mut out, elements)?;
        out.extend(b"tQ");
        int(&mut out, 0)?;
        out.push(b'(');
        shape.dims().iter().try_for_each(|&size| int(&mut out, size))?;
        out.extend(b"t(");
        let mut stride = elements;
        for &size in shape.dims() {
            stride /= size.max(1);
            int(&mut out, stride)?;
        }
        // No gradient, no hooks.
        out.extend(b"t\x89ccollections\nOrderedDict\n)RtR");
    }
    out.extend(b"u.");
    Ok(out)
}
