//! Precision of matmul.

/// How f32 factors are multiplied; other dtypes are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Unrounded.
    #[default]
    Strict,
    /// Rounded to TF32 (8 bits of exponent, 10 of mantissa) and summed in f32, by tensor cores: on CUDA only.
    Tf32,
}
