//! Each element by itself.

pub(crate) mod gelu;
pub(crate) mod pointwise;
pub(crate) mod scalar;

pub use gelu::{Approximation, Gelu, GeluGrad};
pub use pointwise::{
    Abs, Add, Div, Erf, Exp, Ln, Maximum, Minimum, Mul, Neg, Recip, Rsqrt, Sign, Sqrt, Sub, Tanh,
};
pub use scalar::{Affine, Cast, Compare, Comparison, Fill, Where};
