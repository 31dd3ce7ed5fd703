//! The residual block that TiDE is made of.

use crate::nn::{Context, Dropout, Init, Linear, Norm, NormKind, Parameters};
use landfall::{Error, Value};

/// `dropout(W_b·relu(W_a·x + a) + b) + W_r·x + r`, layer-normalised where it has a norm (Das et al. 2023, section 4.1).
#[derive(Debug, Clone)]
pub(super) struct ResidualBlock {
    hidden: Linear,
    out: Linear,
    skip: Linear,
    norm: Option<Norm>,
    dropout: Dropout,
}

/// Sizes of a residual block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widths {
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    pub(super) outputs: usize,
}

impl ResidualBlock {
    pub(super) fn new(p: &mut Parameters, name: &str, widths: Widths, norm: bool, rate: f64) -> Self {
        let Widths { inputs, hidden, outputs } = widths;
        let mut linear = |part: &str, from, to| {
            let (weight, bias) = (Init::xavier_uniform(from, to), Init::Constant(0.0));
            Linear::with_init(p, &format!("{name}.{part}"), from, to, weight, bias)
        };
        let (hidden, out, skip) = (
            linear("hidden", inputs, hidden),
            linear("out", hidden, outputs),
            linear("skip", inputs, outputs),
        );
        let norm = norm.then(|| Norm::new(p, &format!("{name}.norm"), NormKind::Layer, outputs));
        Self { hidden, out, skip, norm, dropout: Dropout { rate } }
    }

    /// `[.., inputs]` → `[.., outputs]`.
    pub(super) fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let g = cx.graph;
        let hidden = g.relu(self.hidden.forward(cx, x)?)?;
        let out = self.dropout.forward(cx, self.out.forward(cx, hidden)?)?;
        let sum = g.add(out, self.skip.forward(cx, x)?)?;
        match &self.norm {
            Some(norm) => norm.forward(cx, sum),
            None => Ok(sum),
        }
    }
}
