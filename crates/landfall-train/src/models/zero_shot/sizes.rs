//! What all parts of the network agree on: its sizes, its levels, and what it sees.

use landfall::Value;
use serde::{Deserialize, Serialize};

/// Levels of the quantiles that a [`ZeroShot`](super::ZeroShot) forecasts.
pub const LEVELS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Patches that are forecast where no more are asked for.
const FEW: usize = 4;

/// Sizes of a [`ZeroShot`](super::ZeroShot).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZeroShotConfig {
    /// Rows of a patch P.
    pub patch: usize,
    /// Rows of the longest context, a multiple of the patch.
    pub context: usize,
    /// Rows that are forecast in one pass at most, a multiple of the patch.
    pub horizon: usize,
    /// Width of the model D.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Attention heads, of D/heads features each.
    pub heads: usize,
}

impl Default for ZeroShotConfig {
    /// The sizes of the weights that are shipped: 1.9 million parameters.
    fn default() -> Self {
        Self { patch: 8, context: 1024, horizon: 128, width: 160, layers: 6, heads: 5 }
    }
}

impl ZeroShotConfig {
    /// Refuses sizes that do not fit each other.
    ///
    /// # Errors
    /// A sentence that says which.
    pub fn check(&self) -> Result<(), String> {
        let Self { patch, context, horizon, width, layers, heads } = *self;
        for (name, size) in [("patch", patch), ("width", width), ("layers", layers), ("heads", heads)] {
            if size == 0 {
                return Err(format!("{name} is 0; it must be at least 1"));
            }
        }
        for (name, rows) in [("context", context), ("horizon", horizon)] {
            if rows == 0 || rows % patch != 0 {
                return Err(format!("{name} is {rows}; it must be a multiple of the patch, {patch} rows"));
            }
        }
        if width % heads != 0 || (width / heads) % 2 != 0 || width / heads < 4 {
            return Err(format!(
                "width is {width}, heads is {heads}; the features of a head, width/heads, must be an even number from 4 on"
            ));
        }
        crate::models::layers_fit(layers)
    }

    /// Patches of a pass that forecasts so many rows: few or all of them, as crops of two horizons are pretrained on.
    #[must_use]
    pub fn queries(&self, rows: usize) -> usize {
        let all = self.horizon / self.patch;
        if rows <= FEW * self.patch { FEW.min(all) } else { all }
    }

    /// Features that describe a patch: its values, which of them are known, their ages, and the place of a patch of the future.
    pub(super) fn features(&self) -> usize {
        3 * self.patch + self.horizon / self.patch
    }
}

/// Windows of equal length, as the network sees them.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Scaled values `[B, R]`, oldest first, 0 where one is missing (the context of [`scaled`](super::scaled)); R is a multiple of the patch.
    pub values: Value,
    /// 1 where a value is known, else 0: `[B, R]`.
    pub known: Value,
    /// Patches to forecast.
    pub queries: usize,
}
