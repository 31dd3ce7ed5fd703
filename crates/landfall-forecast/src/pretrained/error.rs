//! Why weights cannot be taken over, or written for another program.

use crate::checkpoint::CheckpointError;
use crate::models::PatchTstConfig;
use std::path::PathBuf;

/// Why weights cannot be taken over, or written for another program.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum PretrainedError {
    #[error("{}: {why}", .path.display())]
    Config { path: PathBuf, why: String },
    #[error("{}: {option} is {value}; {why}", .path.display())]
    Option { path: PathBuf, option: &'static str, value: String, why: &'static str },
    #[error("{form} cannot express {option}: {why}")]
    Unexpressed { form: &'static str, option: String, why: String },
    #[error("{} exists already; choose another path", .path.display())]
    Exists { path: PathBuf },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

landfall::debug_as_text!(PretrainedError);

/// Refuses what neither form of others has: quantiles.
pub(super) fn forecasts_alone(form: &'static str, config: &PatchTstConfig) -> Result<(), PretrainedError> {
    let refused =
        |option: String, why: &str| PretrainedError::Unexpressed { form, option, why: why.to_owned() };
    if config.outputs != 1 {
        let option = format!("quantiles ({} of them)", config.outputs);
        return Err(refused(option, "its head predicts one value for each row"));
    }
    Ok(())
}
