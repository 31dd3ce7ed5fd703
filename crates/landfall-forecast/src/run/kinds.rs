//! Kinds of generated data, of arithmetic and of weights, by the names that settings give them.

use landfall::DType;
use landfall::ops::Precision as Products;
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

/// What a run computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 32-bit floats whose matrix products round their factors to TF32, on a GPU.
    Tf32,
    /// Products and the pointwise ops between them in bf16; weights, norms, losses and the optimizer in f32.
    Bf16,
    /// The same in f16, with a dynamic loss scale.
    F16,
}

impl Precision {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// The dtype of arithmetic, and how f32 products multiply.
    #[must_use]
    pub const fn parts(self) -> (DType, Products) {
        match self {
            Self::F32 => (DType::F32, Products::Strict),
            Self::F64 => (DType::F64, Products::Strict),
            Self::Tf32 => (DType::F32, Products::Tf32),
            Self::Bf16 => (DType::BF16, Products::Strict),
            Self::F16 => (DType::F16, Products::Strict),
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
