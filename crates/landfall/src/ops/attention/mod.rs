//! Attention, by dot products and by cosines, with its gradients.

pub(crate) mod cpu_heads;
pub(crate) mod cpu_tiles;

family! { cosine cosine_grad forward grad masked masked_grad }
