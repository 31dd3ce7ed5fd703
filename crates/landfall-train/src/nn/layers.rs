//! Linear, dropout, norms.

use super::batch_statistics::{self, Normalised};
use super::context::{Context, Mode, RunningStatistic};
use super::parameter::{Init, ParameterId, Parameters};
use landfall::{Error, Value, ops};

/// `y = x · Wᵀ + b`, weight `[out, in]`, bias `[out]`.
///
/// ```
/// use landfall_train::nn::{Context, Linear, Mode, Parameters};
/// # use landfall::{DType, Graph, StateSpec};
/// # fn graph(p: &Parameters) -> Result<Graph, landfall::Error> {
/// #     let mut spec = StateSpec::new();
/// #     let entries: Vec<_> = p.list().iter().map(|p| (p.name.clone(), p.shape)).collect();
/// #     spec.add("parameters", DType::F32, &entries)?;
/// #     let buffers: Vec<_> = p.buffers().iter().map(|b| (b.name.clone(), b.shape)).collect();
/// #     spec.add("buffers", DType::F32, &buffers)?;
/// #     Ok(Graph::new(&std::sync::Arc::new(spec)))
/// # }
/// let mut p = Parameters::new();
/// let layer = Linear::new(&mut p, "layer", 4, 2);
/// let g = graph(&p)?; // over a state with an entry for each parameter, as a `Trainer` makes it
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let y = layer.forward(&cx, g.input("x", DType::F32, [8, 16, 4]))?;
/// assert_eq!(g.shape(y).dims(), [8, 16, 2]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    weight: ParameterId,
    bias: Option<ParameterId>,
}

impl Linear {
    /// A layer whose parameters are `name.weight` and `name.bias`, both uniform in ±1/√inputs.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, inputs: usize, outputs: usize) -> Self {
        Self::with_init(p, name, inputs, outputs, Init::fan_in(inputs), Init::fan_in(inputs))
    }

    /// A layer with these initial values.
    ///
    /// ```
    /// use landfall_train::nn::{Init, Linear, Parameters};
    /// let mut p = Parameters::new();
    /// let layer = Linear::with_init(&mut p, "head", 64, 10, Init::kaiming_normal(64), Init::Constant(0.0));
    /// assert_eq!(p.get(layer.weight()).shape.dims(), [10, 64]);
    /// ```
    #[track_caller]
    pub fn with_init(
        p: &mut Parameters,
        name: &str,
        inputs: usize,
        outputs: usize,
        weight: Init,
        bias: Init,
    ) -> Self {
        let weight = p.add(&format!("{name}.weight"), [outputs, inputs], weight);
        Self { weight, bias: Some(p.add(&format!("{name}.bias"), [outputs], bias)) }
    }

    /// One layer that checkpoints hold as several of equal width: `parts[i].weight`, `parts[i].bias`.
    ///
    /// ```
    /// use landfall_train::nn::{Init, Linear, Parameters};
    /// let mut p = Parameters::new();
    /// // One product for query, key and value, which a checkpoint holds as three.
    /// let parts = ["q", "k", "v"].map(|part| format!("attention.{part}"));
    /// let qkv = Linear::stacked(&mut p, "attention.qkv", &parts, 16, 16, Init::fan_in(16), Init::fan_in(16));
    /// assert_eq!(p.get(qkv.weight()).shape.dims(), [48, 16]);
    /// assert_eq!(p.get(qkv.weight()).parts[1], "attention.k.weight");
    /// ```
    #[track_caller]
    pub fn stacked(
        p: &mut Parameters,
        name: &str,
        parts: &[String],
        inputs: usize,
        outputs: usize,
        weight: Init,
        bias: Init,
    ) -> Self {
        let mut add = |kind: &str, shape: landfall::Shape, init| {
            let full: Vec<String> = parts.iter().map(|part| format!("{part}.{kind}")).collect();
            let full: Vec<&str> = full.iter().map(String::as_str).collect();
            p.add_stacked(&format!("{name}.{kind}"), &full, shape, init)
        };
        let all = parts.len() * outputs;
        let weight = add("weight", [all, inputs].into(), weight);
        Self { weight, bias: Some(add("bias", [all].into(), bias)) }
    }

    /// A layer without a bias: its parameter is `name.weight`, uniform in ±1/√inputs.
    ///
    /// ```
    /// use landfall_train::nn::{Linear, Parameters};
    /// let mut p = Parameters::new();
    /// Linear::unbiased(&mut p, "embed", 8, 32);
    /// assert_eq!((p.list().len(), p.count()), (1, 8 * 32));
    /// ```
    #[track_caller]
    pub fn unbiased(p: &mut Parameters, name: &str, inputs: usize, outputs: usize) -> Self {
        Self::stacked_unbiased(p, name, &[name.to_owned()], inputs, outputs)
    }

    /// As [`Linear::stacked`], without a bias: `parts[i].weight` in checkpoints, uniform in ±1/√inputs.
    ///
    /// ```
    /// use landfall_train::nn::{Linear, Parameters};
    /// let mut p = Parameters::new();
    /// let parts = ["k", "v"].map(str::to_owned);
    /// let both = Linear::stacked_unbiased(&mut p, "kv", &parts, 8, 32);
    /// assert_eq!((p.get(both.weight()).shape.dims(), p.count()), (&[64, 8][..], 64 * 8));
    /// ```
    #[track_caller]
    pub fn stacked_unbiased(
        p: &mut Parameters,
        name: &str,
        parts: &[String],
        inputs: usize,
        outputs: usize,
    ) -> Self {
        let full: Vec<String> = parts.iter().map(|part| format!("{part}.weight")).collect();
        let full: Vec<&str> = full.iter().map(String::as_str).collect();
        let shape = [parts.len() * outputs, inputs];
        Self {
            weight: p.add_stacked(&format!("{name}.weight"), &full, shape, Init::fan_in(inputs)),
            bias: None,
        }
    }

    /// The weight.
    #[must_use]
    pub fn weight(&self) -> ParameterId {
        self.weight
    }

    /// `[.., in]` → `[.., out]`.
    ///
    /// # Errors
    /// The last size of `x` must be the layer's number of inputs.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let w = cx.parameter(self.weight)?;
        self.forward_with(cx, x, w)
    }

    /// The same with this value for the weight (a view or another order of it).
    ///
    /// # Errors
    /// As [`Linear::forward`].
    #[track_caller]
    pub fn forward_with(&self, cx: &Context<'_>, x: Value, weight: Value) -> Result<Value, Error> {
        let wt = cx.graph.transpose(weight)?;
        match self.bias {
            Some(b) => cx.graph.matmul_add(x, wt, cx.parameter(b)?),
            None => cx.graph.matmul(x, wt),
        }
    }
}

/// Drops elements with probability `rate` in training and scales the others by 1/(1 − rate).
///
/// ```
/// use landfall::{DType, Graph, StateSpec};
/// use landfall_train::nn::{Context, Dropout, Mode, Parameters};
/// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
/// let p = Parameters::new();
/// let x = g.input("x", DType::F32, [8, 4]);
/// // In evaluation it does nothing.
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// assert_eq!(Dropout { rate: 0.1 }.forward(&cx, x)?, x);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability of dropping an element, in [0, 1).
    pub rate: f64,
}

impl Dropout {
    /// Applies it; the identity in evaluation, unless that asks for dropout ([`Mode::Draw`]), and at rate 0.
    ///
    /// # Errors
    /// `rate` must be in [0, 1).
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let stream = cx.next_stream();
        match cx.mode {
            Mode::Train { cursor } | Mode::Draw { cursor, dropout: true } if self.rate != 0.0 => {
                cx.graph.op1(ops::Dropout { rate: self.rate, stream }, &[x, cursor])
            }
            Mode::Train { .. } | Mode::Draw { .. } | Mode::Evaluate => Ok(x),
        }
    }
}

/// GELU in its exact (erf) or its tanh form.
///
/// ```
/// use landfall::{DType, Graph, StateSpec, ops::Approximation};
/// use landfall_train::nn::{Context, Mode, Parameters, gelu};
/// let (g, p) = (Graph::new(&std::sync::Arc::new(StateSpec::new())), Parameters::new());
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let y = gelu(&cx, g.input("x", DType::F32, [8, 4]), Approximation::Tanh)?;
/// assert_eq!(g.shape(y).dims(), [8, 4]);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// `x` must be of a float dtype.
#[track_caller]
pub fn gelu(cx: &Context<'_>, x: Value, approximation: ops::Approximation) -> Result<Value, Error> {
    cx.graph.op1(ops::Gelu { approximation }, &[x])
}

/// Which norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// Over the batch and all positions, per feature, with running statistics (Ioffe & Szegedy 2015).
    Batch,
    /// Over the features of each position (Ba et al. 2016).
    Layer,
}

/// A norm over the last axis' features, eps 1e-5.
///
/// ```
/// use landfall_train::nn::{Context, Mode, Norm, NormKind, Parameters};
/// # use landfall::{DType, Graph, StateSpec};
/// # fn graph(p: &Parameters) -> Result<Graph, landfall::Error> {
/// #     let mut spec = StateSpec::new();
/// #     let entries: Vec<_> = p.list().iter().map(|p| (p.name.clone(), p.shape)).collect();
/// #     spec.add("parameters", DType::F32, &entries)?;
/// #     let buffers: Vec<_> = p.buffers().iter().map(|b| (b.name.clone(), b.shape)).collect();
/// #     spec.add("buffers", DType::F32, &buffers)?;
/// #     Ok(Graph::new(&std::sync::Arc::new(spec)))
/// # }
/// let mut p = Parameters::new();
/// let layer = Norm::new(&mut p, "layer", NormKind::Layer, 16);
/// let batch = Norm::new(&mut p, "batch", NormKind::Batch, 16);
/// assert_eq!(p.buffers().len(), 2); // the running mean and variance of the batch norm
/// let g = graph(&p)?;
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let x = g.input("x", DType::F32, [8, 5, 16]);
/// let y = batch.forward(&cx, layer.forward(&cx, x)?)?;
/// assert_eq!(g.shape(y).dims(), [8, 5, 16]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Norm {
    kind: NormKind,
    name: String,
    weight: ParameterId,
    bias: ParameterId,
}

const EPS: f64 = 1e-5;
const MOMENTUM: f64 = 0.1;

impl Norm {
    /// A norm over `features`, weight 1 and bias 0.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, kind: NormKind, features: usize) -> Self {
        let weight = p.add(&format!("{name}.weight"), [features], Init::Constant(1.0));
        let bias = p.add(&format!("{name}.bias"), [features], Init::Constant(0.0));
        if kind == NormKind::Batch {
            p.add_buffer(&format!("{name}.running_mean"), [features], 0.0);
            p.add_buffer(&format!("{name}.running_var"), [features], 1.0);
            p.add_counter(&format!("{name}.num_batches_tracked"));
        }
        Self { kind, name: name.to_owned(), weight, bias }
    }

    /// `[.., features]` → the same shape.
    ///
    /// # Errors
    /// The last size of `x` must be the norm's features.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        let (g, weight, bias) = (cx.graph, cx.parameter(self.weight)?, cx.parameter(self.bias)?);
        let only = |outputs: Vec<Value>| outputs[0];
        match (self.kind, cx.mode) {
            (NormKind::Layer, _) => Ok(only(g.op(ops::LayerNorm { eps: EPS }, &[x, weight, bias])?)),
            (NormKind::Batch, Mode::Train { .. }) => {
                let ranks = cx.statistics();
                let Normalised { y, mean, variance } = match ranks {
                    1 => {
                        let outputs = g.op(ops::BatchNorm { eps: EPS }, &[x, weight, bias])?;
                        Normalised { y: outputs[0], mean: outputs[1], variance: outputs[2] }
                    }
                    ranks => batch_statistics::across(g, ranks, (x, weight, bias), EPS)?,
                };
                let count = ranks * g.shape(x).elements() / g.shape(x).last().max(1);
                let running = |kind: &str, batch, unbiased_count| RunningStatistic {
                    buffer: format!("{}.{kind}", self.name),
                    batch,
                    momentum: MOMENTUM,
                    unbiased_count,
                };
                cx.collect(running("running_mean", mean, None));
                cx.collect(running("running_var", variance, Some(count)));
                Ok(y)
            }
            (NormKind::Batch, Mode::Evaluate | Mode::Draw { .. }) => {
                // One factor and one addend for each feature, then one pass; a norm, so in f32 whatever lies around it.
                g.full_precision(|| {
                    let buffer =
                        |kind: &str| g.cast(g.entry(&format!("{}.{kind}", self.name))?, g.spec(x).dtype);
                    let (mean, var) = (buffer("running_mean")?, buffer("running_var")?);
                    let factor = g.mul(weight, g.rsqrt(g.affine(var, 1.0, EPS)?)?)?;
                    let addend = g.sub(bias, g.mul(mean, factor)?)?;
                    g.add(g.mul(x, factor)?, addend)
                })
            }
        }
    }
}
