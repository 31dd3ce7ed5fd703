//! A decoder of bytes: embedding, blocks of attention and SwiGLU behind norms, with rotary positions.

use landfall::{Error, Value, Visible};
use landfall_train::nn::{
    AttentionConfig, Context, Embedding, Init, Linear, MultiHeadAttention, Parameters, RmsNorm,
};

struct Block {
    before_attention: RmsNorm,
    attention: MultiHeadAttention,
    before_feed_forward: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// The model's layers.
pub(crate) struct TinyGpt {
    bytes: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    head: Linear,
}

impl TinyGpt {
    /// A model with this many features of a token and blocks.
    pub(crate) fn new(p: &mut Parameters, features: usize, blocks: usize) -> Self {
        let bytes = Embedding::with_init(p, "bytes", 256, features, Init::Normal(0.02));
        let config = AttentionConfig { features, heads: 4, key_heads: 2, rotary: Some(1e4) };
        let block = |i| Block {
            before_attention: RmsNorm::new(p, &format!("{i}.before_attention"), features),
            attention: MultiHeadAttention::new(p, &format!("{i}.attention"), config),
            before_feed_forward: RmsNorm::new(p, &format!("{i}.before_feed_forward"), features),
            gate: Linear::new(p, &format!("{i}.gate"), features, 2 * features),
            up: Linear::new(p, &format!("{i}.up"), features, 2 * features),
            down: Linear::new(p, &format!("{i}.down"), 2 * features, features),
        };
        let blocks = (0..blocks).map(block).collect();
        Self {
            bytes,
            blocks,
            norm: RmsNorm::new(p, "norm", features),
            head: Linear::new(p, "head", features, 256),
        }
    }

    /// `[B, T]` bytes → `[B, T, 256]`, of each place the logits of the byte behind it.
    pub(crate) fn logits(&self, cx: &Context<'_>, bytes: Value) -> Result<Value, Error> {
        let (g, causal) = (cx.graph, Visible { causal: true, ..Visible::default() });
        let mut x = self.bytes.forward(cx, bytes)?;
        for block in &self.blocks {
            let seen = block.attention.forward(cx, block.before_attention.forward(cx, x)?, causal)?;
            x = g.add(x, seen)?;
            let h = block.before_feed_forward.forward(cx, x)?;
            let h = g.swiglu(block.gate.forward(cx, h)?, block.up.forward(cx, h)?)?;
            x = g.add(x, block.down.forward(cx, h)?)?;
        }
        self.head.forward(cx, self.norm.forward(cx, x)?)
    }
}
