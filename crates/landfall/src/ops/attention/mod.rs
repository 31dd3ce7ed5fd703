//! Attention, by dot products and by cosines, with its gradients.

pub(crate) mod cpu_heads;
pub(crate) mod cpu_tiles;
mod heads_first;

use crate::contract::AttributeValue;
use crate::values::Spec;

/// `1/√e`, the scale of a call that names none, as in PyTorch's `scaled_dot_product_attention`.
pub(in crate::ops) fn scale_of(features: usize) -> f64 {
    (features.max(1) as f64).powf(-0.5)
}

/// The value of an attribute of attention that a call by name leaves out.
fn left_out(attribute: &str, args: &[Spec]) -> Option<AttributeValue> {
    let features = args.first()?.shape.last();
    (attribute == "scale").then(|| AttributeValue::Float(scale_of(features)))
}

pub use heads_first::HeadsFirst;

family! { cosine cosine_grad forward grad masked masked_grad }
