//! Why an ensemble does not forecast.

use crate::pretrained_network::NetworkError;
use landfall_local::LocalError;
use std::path::PathBuf;

/// Why an ensemble does not forecast.
#[derive(thiserror::Error)]
pub enum EnsembleError {
    /// The pretrained network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Weights that are named for the pretrained network.
    #[error(
        "the pretrained network of the run's ensemble, {}: {why}; bring the weights of the run back, or train it again", path.display()
    )]
    Weights {
        /// Where they were.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A statistical model.
    #[error("series `{series}`: {why}")]
    Local {
        /// The series.
        series: String,
        /// What it says.
        why: LocalError,
    },
    /// The file of a run.
    #[error("{}: {why}; train the run again", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A processor without threads or memory.
    #[error(transparent)]
    Engine(#[from] landfall::Error),
}

landfall::debug_as_text!(EnsembleError);
