//! Norms of one group of features each, without running statistics.

use super::context::Context;
use super::parameter::{Init, ParameterId, Parameters};
use landfall::{Error, Rule, Value};
use std::panic::Location;

/// `x / √(mean x² + eps) · weight` over the last axis, weight `[d]`, eps 1e-5 unless another is given (Zhang & Sennrich 2019).
///
/// ```
/// use landfall::{DType, Graph};
/// use landfall_train::nn::{Context, Mode, Parameters, RmsNorm};
/// let mut p = Parameters::new();
/// let norm = RmsNorm::new(&mut p, "norm", 64);
/// let g = Graph::new(&p.state_spec(DType::F32)?);
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let x = g.input("x", DType::F32, [8, 32, 64]);
/// assert_eq!(g.shape(norm.forward(&cx, x)?).dims(), [8, 32, 64]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RmsNorm {
    weight: ParameterId,
    eps: f64,
}

const EPS: f64 = 1e-5;

impl RmsNorm {
    /// A norm over `features` whose parameter is `name.weight`, 1 at first.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, features: usize) -> Self {
        Self::with_eps(p, name, features, EPS)
    }

    /// The same with another eps, 1e-6 in T5 for instance.
    ///
    /// ```
    /// use landfall_train::nn::{Parameters, RmsNorm};
    /// let mut p = Parameters::new();
    /// RmsNorm::with_eps(&mut p, "layer_norm", 64, 1e-6);
    /// assert_eq!(p.list()[0].name, "layer_norm.weight");
    /// ```
    #[track_caller]
    pub fn with_eps(p: &mut Parameters, name: &str, features: usize, eps: f64) -> Self {
        Self { weight: p.add(&format!("{name}.weight"), [features], Init::Constant(1.0)), eps }
    }

    /// `[.., d]` → the same shape.
    ///
    /// # Errors
    /// The last size of `x` must be d; `x` must be of a float dtype.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, weight) = (cx.graph, cx.parameter(self.weight)?);
        same_size(cx, "rms_norm", (x, g.shape(x).rank().saturating_sub(1)), weight)?;
        // A norm, so in f32 whatever lies around it.
        g.full_precision(|| g.rms_norm(x, weight, self.eps))
    }
}

/// `(x − mean) / √(variance + eps) · weight + bias` over each group of channels and all that is behind them, weight and bias
/// `[C]`, eps 1e-5 (Wu & He 2018).
///
/// ```
/// use landfall::{DType, Graph};
/// use landfall_train::nn::{Context, GroupNorm, Mode, Parameters};
/// let mut p = Parameters::new();
/// let norm = GroupNorm::new(&mut p, "norm", 4, 16);
/// let g = Graph::new(&p.state_spec(DType::F32)?);
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let x = g.input("x", DType::F32, [8, 16, 96]);
/// assert_eq!(g.shape(norm.forward(&cx, x)?).dims(), [8, 16, 96]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct GroupNorm {
    groups: usize,
    weight: ParameterId,
    bias: ParameterId,
}

impl GroupNorm {
    /// A norm over `groups` of `channels` whose parameters are `name.weight`, 1 at first, and `name.bias`, 0 at first.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, groups: usize, channels: usize) -> Self {
        let weight = p.add(&format!("{name}.weight"), [channels], Init::Constant(1.0));
        Self { groups, weight, bias: p.add(&format!("{name}.bias"), [channels], Init::Constant(0.0)) }
    }

    /// `[B, C, ..]` → the same shape.
    ///
    /// # Errors
    /// `x` must have C channels, a multiple of the groups, and be of a float dtype.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, weight, bias) = (cx.graph, cx.parameter(self.weight)?, cx.parameter(self.bias)?);
        same_size(cx, "group_norm", (x, 1), weight)?;
        g.full_precision(|| g.group_norm(x, self.groups, weight, bias, EPS))
    }
}

/// Refuses an `x` whose axis has another size than a weight `[d]`: where it is 1, broadcasting would widen it.
#[track_caller]
fn same_size(
    cx: &Context<'_>,
    op: &'static str,
    (x, axis): (Value, usize),
    weight: Value,
) -> Result<(), Error> {
    let (specs, at) = ([x, weight].map(|v| cx.graph.spec(v)), Location::caller());
    let size = specs[1].shape.last();
    let rule = match specs[0].shape.dims().get(axis) {
        Some(&own) if own == size => return Ok(()),
        Some(&own) => Rule::Dim { lhs: (0, axis, own), rhs: (1, 0, size) },
        None => Rule::Axis { axis: axis as isize, rank: specs[0].shape.rank() },
    };
    Err(rule.of(op, &specs, None, Some(at)).into())
}
