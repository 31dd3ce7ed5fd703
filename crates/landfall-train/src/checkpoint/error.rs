//! Why a checkpoint could not be written or read.

use std::path::PathBuf;

/// Why a checkpoint could not be written or read.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum CheckpointError {
    #[error("cannot write {}: {why}; the file that was there before is untouched", .path.display())]
    Write { path: PathBuf, why: std::io::Error },
    #[error("cannot read {}: {why}", .path.display())]
    Read { path: PathBuf, why: std::io::Error },
    #[error("{} is not a whole safetensors file ({why}); it may be truncated or of another kind", .path.display())]
    Format { path: PathBuf, why: String },
    #[error("{} is no state dict of torch.save: {why}", .path.display())]
    Torch { path: PathBuf, why: String },
    #[error("{}: the checksum does not match: the file was changed or damaged after it was written; use another checkpoint of the run, or train again", .path.display())]
    Checksum { path: PathBuf },
    #[error("{}: tensor {name} has {value} as element {element}; weights must be finite: use another checkpoint of the run, or train again", .path.display())]
    NotFinite { path: PathBuf, name: String, element: usize, value: f64 },
    #[error(
        "the training diverged: after step {step} tensor {name} has {value} as element {element}, which no run can go on from; use a smaller learning rate (lr) or clip gradients at a smaller norm (clip), or scale the data"
    )]
    Diverged { step: usize, name: String, element: usize, value: f64 },
    #[error("{}: tensor {name} is missing; the model needs it as {expected}", .path.display())]
    Missing { path: PathBuf, name: String, expected: String },
    #[error("{}: tensor {name} is {found}, the model has it as {expected}", .path.display())]
    Shape { path: PathBuf, name: String, found: String, expected: String },
    #[error("{}: tensor {name} belongs to no parameter of the model; is it a checkpoint of another model?", .path.display())]
    Unknown { path: PathBuf, name: String },
    #[error("{}: tensor {name} holds {found}, the model uses {expected}", .path.display())]
    Constant { path: PathBuf, name: String, found: f64, expected: f64 },
    #[error("{}: the entry {name} of its metadata is missing or wrong; it is not a checkpoint to resume from", .path.display())]
    Metadata { path: PathBuf, name: &'static str },
    #[error(transparent)]
    Engine(#[from] landfall::Error),
}

landfall::debug_as_text!(CheckpointError);
