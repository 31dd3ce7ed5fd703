//! The two networks: what the past hours are, and the linear layer that forecasts from it.

use crate::data::{FUTURE, PAST};
use landfall::{Error, Value, Windows};
use landfall_train::nn::{Context, Conv1d, Gru, Linear, Parameters};

/// Two convolutions over the hours, or a GRU; then a linear layer on what they found.
pub(crate) enum Network {
    Cnn([Conv1d; 2], Linear),
    Gru(Gru, Linear),
}

impl Network {
    pub(crate) fn cnn(p: &mut Parameters) -> Self {
        let windows = Windows::of(5).stride(2).padding(2);
        let convolutions = [Conv1d::new(p, "0", 1, 16, windows, 1), Conv1d::new(p, "1", 16, 16, windows, 1)];
        Self::Cnn(convolutions, Linear::new(p, "last", 16 * PAST / 4, FUTURE))
    }
    pub(crate) fn gru(p: &mut Parameters) -> Self {
        Self::Gru(Gru::new(p, "gru", 1, 32), Linear::new(p, "last", 32, FUTURE))
    }
    pub(crate) fn forward(&self, cx: &Context<'_>, past: Value) -> Result<Value, Error> {
        let (g, batch) = (cx.graph, cx.graph.shape(past).dims()[0]);
        match self {
            Self::Cnn(convolutions, last) => {
                let mut x = g.reshape(past, [batch, 1, PAST])?;
                for layer in convolutions {
                    x = g.silu(layer.forward(cx, x)?)?;
                }
                last.forward(cx, g.reshape(x, [batch, 16 * PAST / 4])?)
            }
            Self::Gru(gru, last) => {
                let states = gru.forward(cx, g.reshape(past, [batch, PAST, 1])?)?;
                last.forward(cx, g.reshape(g.slice(states, 1, PAST - 1, 1)?, [batch, 32])?)
            }
        }
    }
}
