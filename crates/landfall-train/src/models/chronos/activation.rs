//! What stands between the products of a feed-forward.

use crate::nn::{Context, gelu};
use landfall::{Error, Value, ops::Approximation};

/// An activation, by the names of the transformers library.
///
/// ```
/// use landfall::ops::Approximation;
/// use landfall_train::models::chronos::Activation;
/// assert_eq!(Activation::parse("gelu_new"), Some(Activation::Gelu(Approximation::Tanh)));
/// assert_eq!(Activation::parse("tanh"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`: `relu`.
    Relu,
    /// `x·Φ(x)`: `gelu`, and by its tanh approximation `gelu_new` and `gelu_pytorch_tanh`.
    Gelu(Approximation),
    /// `x/(1 + e⁻ˣ)`: `silu` and `swish`.
    Silu,
}

impl Activation {
    /// The activation of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "relu" => Some(Self::Relu),
            "gelu" => Some(Self::Gelu(Approximation::Erf)),
            "gelu_new" | "gelu_pytorch_tanh" => Some(Self::Gelu(Approximation::Tanh)),
            "silu" | "swish" => Some(Self::Silu),
            _ => None,
        }
    }

    /// Of each element.
    pub(super) fn forward(self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        match self {
            Self::Relu => cx.graph.relu(x),
            Self::Gelu(approximation) => gelu(cx, x, approximation),
            Self::Silu => cx.graph.silu(x),
        }
    }
}
