//! Where the data of a run comes from, and what it is.

use crate::data::synthetic::WalkData;
use crate::data::{Panel, ReadOptions, TokenData};
use std::path::PathBuf;

/// Where the data comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Files.
    Files {
        /// Their paths.
        paths: Vec<PathBuf>,
        /// What to read of them.
        read: Box<ReadOptions>,
    },
    /// A generated hourly series.
    Demo {
        /// Its rows.
        rows: usize,
        /// Its columns.
        channels: usize,
    },
    /// Generated random walks.
    Walk {
        /// Number of windows.
        samples: usize,
        /// Columns of a window.
        channels: usize,
    },
    /// Generated samples of tokens.
    Assets {
        /// Number of samples.
        samples: usize,
    },
}

/// The data of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Series to forecast.
    Series(Panel),
    /// Windows with labels.
    Walk(WalkData),
    /// Samples of tokens with classes.
    Tokens(TokenData),
}
