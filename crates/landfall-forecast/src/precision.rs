//! Kinds of arithmetic, by the names that settings give them.

use landfall::ops::Precision as Products;
use landfall::{DType, DeviceKind};
use serde::{Deserialize, Serialize};

/// What a training computes in.
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

/// How f32 products multiply on a device: as asked, but none on a CPU that are TF32. The null device computes nothing, and plans all alike.
pub(crate) fn products_on(device: DeviceKind, asked: Products) -> Option<Products> {
    match (asked, device) {
        (Products::Tf32, DeviceKind::Cpu) => None,
        (_, DeviceKind::Null) => Some(Products::Strict),
        (asked, DeviceKind::Cpu | DeviceKind::Cuda(_)) => Some(asked),
    }
}
