//! Kinds of generated data and of weights, by the names that settings give them.

use serde::{Deserialize, Serialize};

/// Data that is generated instead of read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Synthetic {
    /// An hourly multivariate series ([`crate::data::synthetic::demo`]).
    Demo,
    /// Random walks with their mean as label ([`crate::data::synthetic::walk`]).
    Walk,
    /// Samples of tokens with classes ([`crate::data::synthetic::assets`]).
    Assets,
}

impl Synthetic {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Walk => "walk",
            Self::Assets => "assets",
        }
    }
}

/// Which weights of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// Those of the best validation error.
    Best,
    /// Those of the last checkpoint.
    Last,
}
