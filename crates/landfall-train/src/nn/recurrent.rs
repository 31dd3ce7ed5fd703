//! Recurrent layers, with parameters as PyTorch's of one layer and direction.

use super::context::Context;
use super::parameter::{Init, ParameterId, Parameters};
use landfall::{Error, Shape, Value};

/// The parameters of all gates, one block of `hidden` rows for each.
#[derive(Debug, Clone, Copy)]
struct Gates {
    hidden: usize,
    weight_ih: ParameterId,
    weight_hh: ParameterId,
    bias_ih: ParameterId,
    bias_hh: ParameterId,
}

impl Gates {
    #[track_caller]
    fn new(p: &mut Parameters, name: &str, gates: usize, inputs: usize, hidden: usize) -> Self {
        let (rows, init) = (gates * hidden, Init::fan_in(hidden));
        Self {
            hidden,
            weight_ih: p.add(&format!("{name}.weight_ih_l0"), [rows, inputs], init),
            weight_hh: p.add(&format!("{name}.weight_hh_l0"), [rows, hidden], init),
            bias_ih: p.add(&format!("{name}.bias_ih_l0"), [rows], init),
            bias_hh: p.add(&format!("{name}.bias_hh_l0"), [rows], init),
        }
    }

    /// `x · weight_ihᵀ + bias_ih`, for all steps at once: no step waits for it.
    #[track_caller]
    fn inputs(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let weight = cx.graph.transpose(cx.parameter(self.weight_ih)?)?;
        cx.graph.matmul_add(x, weight, cx.parameter(self.bias_ih)?)
    }

    /// A first state of zeros for the batch of `x`.
    #[track_caller]
    fn zeros(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let mut shape = Shape::from([1, self.hidden]);
        if let Some(&batch) = cx.graph.shape(x).dims().first() {
            shape = shape.with(0, batch);
        }
        cx.graph.fill(cx.dtype(x), shape, 0.0)
    }
}

/// A gated recurrent unit over time (Cho et al. 2014, in the form of PyTorch's `GRU`): with the rows of the weights `W`
/// (`weight_ih_l0`, `[3·H, F]`), `U` (`weight_hh_l0`, `[3·H, H]`) and the biases `b`, `c` (`[3·H]`) in the order r, z, n,
///
/// `r = σ(W_r·x_t + b_r + U_r·h + c_r)`, `z = σ(W_z·x_t + b_z + U_z·h + c_z)`, `n = tanh(W_n·x_t + b_n + r·(U_n·h + c_n))`,
/// `h_t = (1 − z)·n + z·h` with `h` the state before.
///
/// ```
/// use landfall::{DType, Graph};
/// use landfall_train::nn::{Context, Gru, Mode, Parameters};
/// let mut p = Parameters::new();
/// let gru = Gru::new(&mut p, "gru", 3, 32);
/// let g = Graph::new(&p.state_spec(DType::F32)?);
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let x = g.input("x", DType::F32, [8, 96, 3]);
/// assert_eq!(g.shape(gru.forward(&cx, x)?).dims(), [8, 96, 32]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Gru(Gates);

impl Gru {
    /// A layer whose parameters are `name.weight_ih_l0`, `name.weight_hh_l0`, `name.bias_ih_l0` and `name.bias_hh_l0`, all uniform
    /// in ±1/√hidden.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, inputs: usize, hidden: usize) -> Self {
        Self(Gates::new(p, name, 3, inputs, hidden))
    }

    /// The states `[B, T, H]` of inputs `[B, T, F]`, from a state of zeros on.
    ///
    /// # Errors
    /// `x` must have three axes, the last of the layer's number of inputs.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        self.forward_from(cx, x, self.0.zeros(cx, x)?)
    }

    /// The same from the state `h0` `[B, H]` on.
    ///
    /// # Errors
    /// As of [`Gru::forward`]; `h0` must have the shape above and the dtype of `x`.
    #[track_caller]
    pub fn forward_from(&self, cx: &Context<'_>, x: Value, h0: Value) -> Result<Value, Error> {
        let (weight, bias) = (cx.parameter(self.0.weight_hh)?, cx.parameter(self.0.bias_hh)?);
        cx.graph.gru(self.0.inputs(cx, x)?, h0, weight, bias)
    }
}

/// Long short-term memory over time (Hochreiter & Schmidhuber 1997, with forget gates, in the form of PyTorch's `LSTM`): with the
/// rows of the weights `W` (`weight_ih_l0`, `[4·H, F]`), `U` (`weight_hh_l0`, `[4·H, H]`) and the biases `b`, `c` (`[4·H]`) in the
/// order i, f, g, o, and `s = W·x_t + b + U·h + c`,
///
/// `i, f, o = σ(s)`, `g = tanh(s_g)`, `c_t = f·c_{t−1} + i·g`, `h_t = o·tanh(c_t)` with `h` the state before.
///
/// ```
/// use landfall::{DType, Graph};
/// use landfall_train::nn::{Context, Lstm, Mode, Parameters};
/// let mut p = Parameters::new();
/// let lstm = Lstm::new(&mut p, "lstm", 3, 32);
/// let g = Graph::new(&p.state_spec(DType::F32)?);
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let x = g.input("x", DType::F32, [8, 96, 3]);
/// assert_eq!(g.shape(lstm.forward(&cx, x)?).dims(), [8, 96, 32]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Lstm(Gates);

impl Lstm {
    /// A layer whose parameters are `name.weight_ih_l0`, `name.weight_hh_l0`, `name.bias_ih_l0` and `name.bias_hh_l0`, all uniform
    /// in ±1/√hidden.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, inputs: usize, hidden: usize) -> Self {
        Self(Gates::new(p, name, 4, inputs, hidden))
    }

    /// The states `[B, T, H]` of inputs `[B, T, F]`, from states of zeros on.
    ///
    /// # Errors
    /// `x` must have three axes, the last of the layer's number of inputs.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let zeros = self.0.zeros(cx, x)?;
        Ok(self.forward_from(cx, x, (zeros, zeros))?.0)
    }

    /// The states and the cell states, `[B, T, H]` each, from the states `h0` and `c0`, `[B, H]` each, on.
    ///
    /// # Errors
    /// As of [`Lstm::forward`]; `h0` and `c0` must have the shape above and the dtype of `x`.
    #[track_caller]
    pub fn forward_from(
        &self,
        cx: &Context<'_>,
        x: Value,
        (h0, c0): (Value, Value),
    ) -> Result<(Value, Value), Error> {
        let (weight, bias) = (cx.parameter(self.0.weight_hh)?, cx.parameter(self.0.bias_hh)?);
        cx.graph.lstm(self.0.inputs(cx, x)?, (h0, c0), weight, bias)
    }
}
