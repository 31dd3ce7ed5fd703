//! Why Chronos weights are not read, or give no forecast.

use crate::checkpoint::CheckpointError;
use std::io;
use std::path::PathBuf;

/// Why the weights of a Chronos-2 or Chronos-Bolt are not read, or give no forecast.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum ChronosError {
    #[error("cannot read {}: {why}; give a folder with config.json and model.safetensors", .path.display())]
    Read { path: PathBuf, why: io::Error },
    #[error("cannot write {}: {why}; check the path and the room on its disk", .path.display())]
    Write { path: PathBuf, why: io::Error },
    #[error("{} is not understood: {why}", .path.display())]
    Config { path: PathBuf, why: String },
    #[error("{}: {option} is {value}; {why}", .path.display())]
    Option { path: PathBuf, option: &'static str, value: String, why: &'static str },
    #[error("{} is not a whole safetensors file: {why}", .path.display())]
    Format { path: PathBuf, why: String },
    #[error("{}: {why}", .path.display())]
    Tensor { path: PathBuf, why: String },
    #[error("the horizon is {horizon}; it must be 1 to {most} rows")]
    Horizon { horizon: usize, most: usize },
    #[error("group {group}, counted from 0, has no series to forecast; give at least one target")]
    NoTarget { group: usize },
    #[error(
        "group {group}, counted from 0, has {members} series; a Chronos-Bolt forecasts each series for itself: give one target, and no \
         covariates"
    )]
    Alone { group: usize, members: usize },
    #[error("group {group}, counted from 0: {what} has {rows} rows; {expected}")]
    Rows { group: usize, what: String, rows: usize, expected: String },
    #[error(
        "group {group}, counted from 0: {what} has {value} in row {row}; give finite values, and NaN where one is missing"
    )]
    Infinite { group: usize, what: String, row: usize, value: f64 },
    #[error("group {group}, counted from 0: {what} has no value; leave it out")]
    Empty { group: usize, what: String },
    #[error("a {network} is not trained further; give the weights of a chronos-2")]
    NotTrained { network: &'static str },
    #[error("there is no group to train on; give at least one")]
    NoGroups,
    #[error(
        "group {group}, counted from 0, has {} targets, {} past covariates and {} known ones, the first group {}, {} and {}; groups to train \
         on have as many of each",
        .found[0], .found[1], .found[2], .expected[0], .expected[1], .expected[2]
    )]
    Kinds { group: usize, found: [usize; 3], expected: [usize; 3] },
    #[error(
        "groups of validation have {} targets, {} past covariates and {} known ones, those of training {}, {} and {}; give as many of each",
        .found[0], .found[1], .found[2], .expected[0], .expected[1], .expected[2]
    )]
    Validation { found: [usize; 3], expected: [usize; 3] },
    #[error(
        "the longest group has {longest} rows, and a window takes {needed}, context and horizon; give longer series, or a shorter horizon or \
         shortest context"
    )]
    Short { longest: usize, needed: usize },
    #[error("{0}")]
    Options(String),
    #[error(
        "{} holds a training of other {what}; go on with the same, or give another folder", .folder.display()
    )]
    OtherTraining { folder: PathBuf, what: &'static str },
    #[error("{} exists, and holds no training of a Chronos-2; give another folder", .folder.display())]
    Taken { folder: PathBuf },
    #[error("{} is no adapter that is supported: {why}", .path.display())]
    Adapter { path: PathBuf, why: String },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Engine(#[from] landfall::Error),
}

landfall::debug_as_text!(ChronosError);
