//! Weights that a training starts from: those that the library carries, and those of PatchTST models that other programs trained.
//!
//! [`Pretrained::read`] takes what a person has: the name [`SHIPPED`], the file of a pretraining, a directory of Hugging Face
//! transformers, a state dict of the official implementation, or a checkpoint of this crate. [`hugging_face::write`] and [`official::write`] are the way back. Both
//! refuse what the other side cannot express, by its option.

mod error;
pub mod hugging_face;
pub mod official;

use crate::checkpoint::File;
use crate::models::zero_shot::ZeroShotConfig;
pub use crate::pretrained_network::SHIPPED;
use crate::zero_shot::Weights;
pub use error::PretrainedError;
pub use official::Shapes;
use std::path::{Path, PathBuf};

/// What weights say of their model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Origin {
    /// A `config.json` of transformers says everything.
    HuggingFace(Box<hugging_face::Described>),
    /// The shapes of the official names say a part of it.
    Official(Shapes),
    /// A forecaster of unknown series, of these sizes.
    ZeroShot(ZeroShotConfig),
    /// The names are of no PatchTST: their model has to be known.
    Unknown,
}

/// Weights with the official names, and what they say of their model.
#[derive(Debug, Clone, PartialEq)]
pub struct Pretrained {
    /// What was given.
    pub path: PathBuf,
    /// The file that the tensors come from.
    pub source: PathBuf,
    /// Tensors with the official names.
    pub file: File,
    /// Of which model they are.
    pub origin: Origin,
}

impl Pretrained {
    /// Reads a directory with `config.json` and `model.safetensors` (or `pytorch_model.bin`), or a file: safetensors or a
    /// state dict of `torch.save`; by the name [`SHIPPED`] the weights of the library.
    ///
    /// ```
    /// use landfall_forecast::pretrained::{Origin, Pretrained, SHIPPED};
    /// assert!(matches!(Pretrained::read(SHIPPED.as_ref())?.origin, Origin::ZeroShot(_)));
    /// # Ok::<(), landfall_forecast::pretrained::PretrainedError>(())
    /// ```
    ///
    /// # Errors
    /// What cannot be read; an option of Hugging Face's or of the official model that a [`PatchTstConfig`](crate::models::PatchTstConfig) cannot express,
    /// by its name and value; a tensor that is missing, unknown or of another shape.
    pub fn read(path: &Path) -> Result<Self, PretrainedError> {
        let owned = path.to_owned();
        if path.is_dir() {
            let (source, file, described) = hugging_face::read(path)?;
            let origin = Origin::HuggingFace(Box::new(described));
            return Ok(Self { path: owned, source, file, origin });
        }
        let file = if path == Path::new(SHIPPED) { Weights::shipped_file() } else { File::read(path) };
        let file = official::without_wrapper(file?);
        let origin = match Weights::sizes(&file) {
            Some(sizes) => Origin::ZeroShot(sizes),
            None => Shapes::of(path, &file)?.map_or(Origin::Unknown, Origin::Official),
        };
        Ok(Self { source: owned.clone(), path: owned, file, origin })
    }
}
