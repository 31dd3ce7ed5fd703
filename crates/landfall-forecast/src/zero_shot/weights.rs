//! Pretrained weights as a file.

use super::ZeroShotError;
use crate::checkpoint::{CheckpointError, File, Tensor};
use crate::models::zero_shot::{ZeroShot, ZeroShotConfig};
use landfall::{DType, HostTensor};
use std::path::Path;

/// The metadata entry that tells such a file from others.
const KIND: (&str, &str) = ("landfall", "zero-shot");
/// The metadata entry with the sizes of the network.
const SIZES: &str = "network";
/// Where messages say that they are.
const PROGRAM: &str = "the weights of the program";
/// The weights that are shipped. Their own SHA-256 is in their metadata, and checked when they are read.
const SHIPPED: &[u8] = include_bytes!("../../weights/zero-shot.safetensors");

/// The weights of a [`ZeroShot`] and its sizes.
#[derive(Debug, Clone)]
pub struct Weights {
    /// The network that they are of.
    pub network: ZeroShot,
    /// The values of its parameters, in their order.
    pub values: Vec<HostTensor>,
}

impl Weights {
    /// Those that the library carries, from `recipes/zero-shot.toml`.
    ///
    /// ```
    /// let weights = landfall_forecast::zero_shot::Weights::shipped()?;
    /// assert_eq!(weights.network.parameters().count(), 1_929_192);
    /// # Ok::<(), landfall_forecast::zero_shot::ZeroShotError>(())
    /// ```
    ///
    /// # Errors
    /// [`ZeroShotError::Weights`] where they are damaged.
    pub fn shipped() -> Result<Self, ZeroShotError> {
        Self::of(&Self::shipped_file()?, Path::new(PROGRAM))
    }

    /// The file that they are in.
    pub(crate) fn shipped_file() -> Result<File, CheckpointError> {
        File::from_safetensors(Path::new(PROGRAM), SHIPPED)
    }

    /// The sizes of the network that a file has weights of, if it says so.
    pub(crate) fn sizes(file: &File) -> Option<ZeroShotConfig> {
        let named = file.metadata.get(KIND.0).map(String::as_str) == Some(KIND.1);
        file.metadata.get(SIZES).filter(|_| named).and_then(|sizes| serde_json::from_str(sizes).ok())
    }

    /// Writes them in bf16, with `notes` on how they came about, by name.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path, notes: &[(&str, String)]) -> Result<(), ZeroShotError> {
        let mut file = File::default();
        for (parameter, value) in self.network.parameters().list().iter().zip(&self.values) {
            file.tensors.insert(parameter.name.clone(), Tensor::from(&value.cast(DType::BF16)));
        }
        let sizes = serde_json::to_string(self.network.config());
        let sizes = sizes.map_err(|why| ZeroShotError::Write { path: path.to_owned(), why: why.into() })?;
        file.metadata.extend([(KIND.0.to_owned(), KIND.1.to_owned()), (SIZES.to_owned(), sizes)]);
        file.metadata.extend(notes.iter().map(|(name, note)| ((*name).to_owned(), note.clone())));
        Ok(file.write(path)?)
    }

    /// Reads them; the checksum of the file is checked.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or is of something else.
    pub fn read(path: &Path) -> Result<Self, ZeroShotError> {
        Self::of(&File::read(path)?, path)
    }

    /// Takes them from a file's contents.
    fn of(file: &File, path: &Path) -> Result<Self, ZeroShotError> {
        let wrong = |why: String| ZeroShotError::Weights { path: path.to_owned(), why };
        if file.metadata.get(KIND.0).map(String::as_str) != Some(KIND.1) {
            return Err(wrong("it holds no forecaster of unknown series".to_owned()));
        }
        let sizes = file.metadata.get(SIZES).ok_or_else(|| wrong(format!("its metadata has no {SIZES}")))?;
        let sizes: ZeroShotConfig = serde_json::from_str(sizes).map_err(|e| wrong(e.to_string()))?;
        let network = ZeroShot::new(sizes).map_err(&wrong)?;
        let mut values = Vec::with_capacity(network.parameters().list().len());
        for parameter in network.parameters().list() {
            let name = &parameter.name;
            let tensor = file.tensors.get(name).ok_or_else(|| wrong(format!("tensor {name} is missing")))?;
            let value = tensor.host().map_err(landfall::Error::from)?;
            if value.spec.shape != parameter.shape || value.data.iter().any(|x| !x.is_finite()) {
                let (is, expected) = (value.spec.shape, parameter.shape);
                return Err(wrong(format!("tensor {name} is {is}, it must be {expected}, of finite values")));
            }
            values.push(value);
        }
        Ok(Self { network, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_shipped_weights_are_those_of_their_card_and_damage_is_told() {
        let sum: String = Sha256::digest(SHIPPED).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(
            include_str!("../../../../docs/zero-shot.md").contains(&sum),
            "docs/zero-shot.md does not name {sum}"
        );
        assert!(SHIPPED.len() <= 4_000_000);
        let mut damaged = SHIPPED.to_vec();
        *damaged.last_mut().expect("bytes") ^= 1;
        let path = Path::new("w.safetensors");
        let why = File::from_safetensors(path, &damaged).expect_err("a changed byte");
        assert!(matches!(why, CheckpointError::Checksum { .. }), "{why}");
    }
}
