//! Why a forecaster of unknown series is not made or used.

use crate::checkpoint::CheckpointError;
use std::io;
use std::path::PathBuf;

/// Why pretraining, or a forecast of pretrained weights, fails.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum ZeroShotError {
    #[error("cannot read {}: {why}; check the path of the recipe", .path.display())]
    Recipe { path: PathBuf, why: io::Error },
    #[error("the recipe is not understood: {0}")]
    Toml(String),
    #[error("the recipe does not fit: {0}")]
    Unfit(String),
    #[error(
        "{} was begun with another recipe: its recipe.toml differs in {line}; give the recipe that it was begun with, or another directory",
        .run.display()
    )]
    OtherRecipe { run: PathBuf, line: String },
    #[error("cannot write {}: {why}; check the path and the room on its disk", .path.display())]
    Write { path: PathBuf, why: io::Error },
    #[error("{} is not a curve of a pretraining: {why}; move it away, or give another directory", .path.display())]
    Curve { path: PathBuf, why: String },
    #[error("{}: {why}; give the weights.safetensors that landfall pretrain wrote", .path.display())]
    Weights { path: PathBuf, why: String },
    #[error("the horizon is {horizon}; it must be 1 to {most} rows")]
    Horizon { horizon: usize, most: usize },
    #[error("series {series}, counted from 0, has no value; leave it out")]
    Empty { series: usize },
    #[error(
        "series {series}, counted from 0, has {value} in row {row}; give finite values, and NaN where one is missing"
    )]
    Infinite { series: usize, row: usize, value: f64 },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Engine(#[from] landfall::Error),
}

landfall::debug_as_text!(ZeroShotError);
