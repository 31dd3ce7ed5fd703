//! The most that sizes may be: what is beyond is mistyped, and no machine has memory for it.

use super::settings::{Network, Settings, SettingsError};

/// Rows, columns and widths.
const SIZE: usize = 1 << 24;
/// Layers and heads: each has a name of its own in memory.
const LAYERS: usize = 1 << 12;

impl Settings {
    /// Refuses sizes that are mistyped.
    pub(super) fn check_sizes(&self) -> Result<(), SettingsError> {
        let none = Network::default();
        let n = self.network.as_ref().unwrap_or(&none);
        let sizes = [
            ("--context", self.context),
            ("--horizon", self.horizon),
            ("--batch", self.batch),
            ("--channels", self.channels),
            ("--period", self.period),
            ("--patch", n.patch),
            ("--stride", n.stride),
            ("kernel", n.kernel),
            ("d-model", n.d_model),
            ("d-ff", n.d_ff),
            ("d-decoder", n.d_decoder),
            ("d-temporal", n.d_temporal),
            ("tokens", n.tokens),
            ("features", n.features),
            ("classes", n.classes),
        ];
        let layers = [("heads", n.heads), ("layers", n.layers)];
        let sizes = sizes.map(|(key, size)| (key, size, SIZE, "it must be at most 16777216"));
        let layers = layers.map(|(key, size)| (key, size, LAYERS, "it must be at most 4096"));
        let mistyped = sizes.iter().chain(&layers).find(|(_, size, most, _)| size.is_some_and(|n| n > *most));
        match mistyped {
            Some(&(key, Some(size), _, rule)) => {
                Err(SettingsError::Range { key, value: size.to_string(), rule })
            }
            Some(_) | None => Ok(()),
        }
    }
}
