//! A small Chronos-2 of initial weights, as the authors' package writes it.

use landfall_forecast::chronos::Weights;
use landfall_train::models::chronos::Chronos2Config;
use std::path::Path;

/// Rows of context, and of a pass.
pub(crate) const CONTEXT: usize = 64;
pub(crate) const PASS: usize = 8;

/// Writes the folder.
pub(crate) fn folder(path: &Path) {
    let sizes = Chronos2Config {
        patch: 4,
        context: CONTEXT,
        patches: PASS / 4,
        levels: (1..10).map(|i| f64::from(i) / 10.0).collect(),
        width: 16,
        features: 4,
        heads: 2,
        hidden: 24,
        layers: 2,
        arcsinh: true,
        time_scale: CONTEXT as f64,
        eps: 1e-6,
        rope: 1e4,
    };
    Weights::initial(sizes, 1).and_then(|weights| weights.write(path)).expect("written");
}
