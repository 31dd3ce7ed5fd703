//! Models: a constructor that names the parameters, and a forward pass.

mod patchtst;
mod presets;

pub use patchtst::{Approximation, DropoutMasks, Order, PatchTst, PatchTstConfig, Task};
pub use presets::{Preset, Recipe};

use crate::nn::{Context, Parameters};
use landfall::{Error, Value};

/// A model that the trainer can train.
pub trait Model: Send + Sync {
    /// Its parameters and buffers.
    fn parameters(&self) -> &Parameters;
    /// Its parameters, for freezing.
    fn parameters_mut(&mut self) -> &mut Parameters;
    /// Adds the forward pass: `[B, C, L]` → `[B, C, H]`.
    ///
    /// # Errors
    /// A shape that does not fit the model, with the caller's line.
    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error>;
}
