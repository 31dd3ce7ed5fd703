//! A layer of a transformer.

use crate::nn::{Linear, Norm};

/// What every layer of attention and feed-forward has.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) qkv: Linear,
    pub(super) out: Linear,
    pub(super) norm_attention: Norm,
    pub(super) expand: Linear,
    pub(super) contract: Linear,
    pub(super) norm_feed_forward: Norm,
}
