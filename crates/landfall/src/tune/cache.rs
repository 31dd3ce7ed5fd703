//! Choices on disk, shared between processes: one file each, written to a temporary file and renamed.

use crate::device::Hardware;
use crate::device::cache::{folder, hex, replace};
use crate::engine::{Engine, SOURCES};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// A stored choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Op, attributes, dtypes, layouts and rounded sizes.
    pub(super) instruction: String,
    /// Name of the device.
    pub(super) device: String,
    /// Driver and library versions.
    pub(super) driver: String,
    /// Hash of the engine's sources, kernels among them.
    pub(super) sources: String,
    /// The chosen kernel.
    pub(super) kernel: String,
}

/// An entry with its checksum, which detects damage.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    entry: Entry,
    sha256: String,
}

/// A cache problem for the user's attention; tuning continues without the cache.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
#[non_exhaustive]
pub enum Notice {
    #[error("the tuned choice for {instruction} in {} is damaged ({why}): it is tuned anew", .path.display())]
    Damaged { instruction: String, path: PathBuf, why: String },
    #[error("the tuned choice for {instruction} is stale ({why}): it is tuned anew")]
    Stale { instruction: String, why: String },
    #[error("the choice for {instruction} could not be kept in {}: {why}", .path.display())]
    NotKept { instruction: String, path: PathBuf, why: String },
    #[error("{instruction} is not tuned: which indices are valid for it is not known")]
    NoDomain { instruction: String },
    #[error("the device null computes nothing, so there is nothing to tune")]
    Null,
}

crate::values::debug_as_text!(Notice);

/// A folder of choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The choices in a folder, which need not exist.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The user's choices, in `tuned` beside the compiled kernels; `None` if there is no cache folder.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        Some(Self { folder: folder()?.join("tuned") })
    }

    /// The file of an instruction on a device. Its name does not contain what may go stale.
    fn path(&self, instruction: &str, hardware: &Hardware) -> PathBuf {
        let mut hash = Sha256::new();
        for part in [instruction, &hardware.name, &hardware.threads.to_string()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        self.folder.join(format!("{}.json", hex(&hash.finalize())))
    }

    /// The stored kernel of an instruction, by its key, on an engine's device; `None` if there is none.
    ///
    /// # Errors
    /// [`Notice::Damaged`] for a file that [`tune`](super::tune()) did not write, or if the device does not respond;
    /// [`Notice::Stale`] for a choice of another driver or build.
    pub fn kernel(&self, instruction: &str, engine: &Engine) -> Result<Option<String>, Notice> {
        let hardware = engine.bare().hardware().map_err(|e| Notice::Damaged {
            instruction: instruction.to_owned(),
            path: self.folder.clone(),
            why: e.to_string(),
        })?;
        self.get(instruction, &hardware)
    }

    /// The chosen kernel, if a valid choice is stored.
    pub(super) fn get(&self, instruction: &str, hardware: &Hardware) -> Result<Option<String>, Notice> {
        let path = self.path(instruction, hardware);
        let damaged = |why: String| Notice::Damaged {
            instruction: instruction.to_owned(),
            path: path.clone(),
            // The parser's message may quote the file.
            why: why.replace('\n', " "),
        };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(damaged(e.to_string())),
        };
        let Kept { entry, sha256 } = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        if sha256 != digest(&entry).map_err(|e| damaged(e.to_string()))? {
            return Err(damaged("its hash is another one".to_owned()));
        }
        let stale = |why: String| Notice::Stale { instruction: instruction.to_owned(), why };
        let parts = [
            ("instruction", &entry.instruction, instruction),
            ("device", &entry.device, &hardware.name),
            ("driver", &entry.driver, &hardware.driver),
            ("build", &entry.sources, SOURCES),
        ];
        match parts.into_iter().find(|(_, was, is)| was != is) {
            Some((what, was, is)) => Err(stale(format!("its {what} was {was:?} and is {is:?}"))),
            None => Ok(Some(entry.kernel)),
        }
    }

    /// Stores a choice.
    pub(super) fn put(&self, instruction: &str, hardware: &Hardware, kernel: &str) -> Result<(), Notice> {
        let path = self.path(instruction, hardware);
        let entry = Entry {
            instruction: instruction.to_owned(),
            device: hardware.name.clone(),
            driver: hardware.driver.clone(),
            sources: SOURCES.to_owned(),
            kernel: kernel.to_owned(),
        };
        let write = || {
            let sha256 = digest(&entry)?;
            replace(&path, &serde_json::to_vec_pretty(&Kept { entry, sha256 })?)
        };
        write().map_err(|e| Notice::NotKept {
            instruction: instruction.to_owned(),
            path: path.clone(),
            why: e.to_string(),
        })
    }
}

fn digest(entry: &Entry) -> serde_json::Result<String> {
    Ok(hex(&Sha256::digest(serde_json::to_vec(entry)?)))
}

/// Changes a field of an entry, and updates the checksum of its file.
#[cfg(test)]
pub(super) fn rewrite(file: &Path, field: &str, value: &str) {
    let text = std::fs::read(file).expect("readable");
    let kept: Kept = serde_json::from_slice(&text).expect("an entry");
    let mut entry = serde_json::to_value(kept.entry).expect("an object");
    entry[field] = value.into();
    let entry: Entry = serde_json::from_value(entry).expect("the same fields");
    let sha256 = digest(&entry).expect("text");
    let text = serde_json::to_vec(&Kept { entry, sha256 }).expect("text");
    std::fs::write(file, text).expect("writable");
}
