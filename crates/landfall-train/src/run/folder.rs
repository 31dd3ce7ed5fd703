//! The folder of a run: `config.toml`, `metrics.jsonl`, `checkpoint.safetensors`, `best.safetensors`, `plan.json`.

use super::RunError;
use crate::checkpoint::replace;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A run's folder, with its metrics open for appending.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: File,
}

impl RunFolder {
    /// Makes a new folder.
    ///
    /// # Errors
    /// [`RunError::Exists`]; [`RunError::Write`] when it cannot be made, and then nothing is left behind.
    pub fn create(path: &Path, configuration: &str) -> Result<Self, RunError> {
        if path.exists() {
            return Err(RunError::Exists { path: path.to_owned() });
        }
        let failed = |why| RunError::Write { path: path.to_owned(), why };
        std::fs::create_dir_all(path).map_err(failed)?;
        let open = || {
            replace(&path.join("config.toml"), configuration.as_bytes())?;
            OpenOptions::new().create(true).append(true).open(path.join("metrics.jsonl"))
        };
        match open() {
            Ok(metrics) => Ok(Self { path: path.to_owned(), metrics }),
            Err(why) => {
                // The folder was made a moment ago and holds nothing that anybody could miss.
                let _ = std::fs::remove_dir_all(path);
                Err(failed(why))
            }
        }
    }

    /// Opens the folder of an earlier run to go on with it from `step`: lines about later steps are dropped, because
    /// they will be made again.
    ///
    /// # Errors
    /// [`RunError::NotARun`]; [`RunError::Write`].
    pub fn resume(path: &Path, step: usize) -> Result<Self, RunError> {
        let file = path.join("metrics.jsonl");
        let failed = |why| RunError::Write { path: file.clone(), why };
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(RunError::NotARun { path: path.to_owned(), why: e.to_string() }),
        };
        let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?.get("step")?.as_u64();
        let kept: String = text
            .lines()
            .filter(|l| of(l).is_some_and(|s| s <= step as u64))
            .map(|l| format!("{l}\n"))
            .collect();
        if kept.len() != text.len() {
            replace(&file, kept.as_bytes()).map_err(failed)?;
        }
        let metrics = OpenOptions::new().create(true).append(true).open(&file).map_err(failed)?;
        Ok(Self { path: path.to_owned(), metrics })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last state, to resume from.
    #[must_use]
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint.safetensors")
    }

    /// The weights of the best validation error.
    #[must_use]
    pub fn best(&self) -> PathBuf {
        self.path.join("best.safetensors")
    }

    /// Appends one line to the metrics.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn log(&mut self, line: &impl Serialize) -> Result<(), RunError> {
        let failed = |why| RunError::Write { path: self.path.join("metrics.jsonl"), why };
        let mut text = serde_json::to_string(line).map_err(|e| failed(e.into()))?;
        text.push('\n');
        self.metrics.write_all(text.as_bytes()).map_err(failed)
    }

    /// Writes a file of the folder, whole or not at all.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        let path = self.path.join(name);
        replace(&path, text.as_bytes()).map_err(|why| RunError::Write { path, why })
    }
}
