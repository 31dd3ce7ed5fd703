//! Attention, by dot products and by cosines, with its gradients.

pub(crate) mod cosine;
pub(crate) mod cosine_grad;
pub(crate) mod cpu_heads;
pub(crate) mod cpu_tiles;
pub(crate) mod forward;
pub(crate) mod grad;

pub use cosine::CosineAttention;
pub use cosine_grad::CosineAttentionGrad;
pub use forward::Attention;
pub use grad::AttentionGrad;
