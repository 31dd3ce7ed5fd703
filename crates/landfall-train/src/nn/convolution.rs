//! Convolution over time.

use super::context::Context;
use super::parameter::{Init, ParameterId, Parameters};
use landfall::{Error, Value, Windows};

/// `y[b, o, i] = bias[o] + Σ_c Σ_k weight[o, c, k] · x[b, g + c, i·stride + k·dilation − padding]` with g the first input channel
/// of o's group ([`Graph::conv1d`](landfall::Graph::conv1d)), weight `[out, in/groups, k]`, bias `[out]`.
///
/// ```
/// use landfall::{DType, Graph, Windows};
/// use landfall_train::nn::{Context, Conv1d, Mode, Parameters};
/// let mut p = Parameters::new();
/// let conv = Conv1d::new(&mut p, "conv", 3, 16, Windows::of(5).padding(2).stride(2), 1);
/// let g = Graph::new(&p.state_spec(DType::F32)?);
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let x = g.input("x", DType::F32, [8, 3, 96]);
/// assert_eq!(g.shape(conv.forward(&cx, x)?).dims(), [8, 16, 48]);
///
/// // A causal convolution, whose results see nothing behind them: (k − 1)·dilation zeros before, none after.
/// let mut p = Parameters::new();
/// let causal = Conv1d::new(&mut p, "causal", 3, 16, Windows::of(2).dilation(4), 1);
/// let g = Graph::new(&p.state_spec(DType::F32)?);
/// let x = g.input("x", DType::F32, [8, 3, 96]);
/// let y = causal.forward(&Context::new(&g, &p, Mode::Evaluate), g.pad(x, -1, 4, 0)?)?;
/// assert_eq!(g.shape(y).dims(), [8, 16, 96]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Conv1d {
    windows: Windows,
    groups: usize,
    weight: ParameterId,
    bias: ParameterId,
}

impl Conv1d {
    /// A layer whose parameters are `name.weight` and `name.bias`, both uniform in ±1/√(in/groups · k) with `windows.size` for k.
    #[track_caller]
    pub fn new(
        p: &mut Parameters,
        name: &str,
        inputs: usize,
        outputs: usize,
        windows: Windows,
        groups: usize,
    ) -> Self {
        // Channels that the groups do not divide are refused by the forward pass.
        let of_group = inputs / groups.max(1);
        let init = Init::fan_in(of_group * windows.size);
        let weight = p.add(&format!("{name}.weight"), [outputs, of_group, windows.size], init);
        Self { windows, groups, weight, bias: p.add(&format!("{name}.bias"), [outputs], init) }
    }

    /// `[B, in, L]` → `[B, out, L']`.
    ///
    /// # Errors
    /// `x` must have three axes and the layer's channels; both numbers of channels must be multiples of the groups; a window must
    /// fit.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (weight, bias) = (cx.parameter(self.weight)?, cx.parameter(self.bias)?);
        cx.graph.conv1d(x, weight, Some(bias), self.windows, self.groups)
    }
}
