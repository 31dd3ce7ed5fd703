//! Checkpoints: safetensors files with the official PatchTST names, and state dicts of `torch.save`.

mod error;
mod file;
mod read;
mod session;
mod torch;
mod trainer;

pub use error::CheckpointError;
pub use file::{File, Tensor};
pub use session::snapshot;
pub use session::{Progress, load_checkpoint, load_weights, read_weights, save, write_weights};
