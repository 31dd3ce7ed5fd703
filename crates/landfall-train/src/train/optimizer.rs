//! Optimizers: what each keeps for every trainable element, and the update that it adds to a step's graph.

use super::names::{FIRST_MOMENT, Moment, SECOND_MOMENT};
use super::optimizer_kind::{Betas, OptimizerKind};
use super::options::TrainingOptions;
use landfall::{DType, Error, Graph, Shape, Value, ops};
use std::fmt::Debug;
use std::sync::Arc;

impl OptimizerKind {
    /// The optimizer of these options.
    #[must_use]
    pub fn of(self, options: &TrainingOptions) -> Arc<dyn Optimizer> {
        let betas = options.betas;
        match self {
            Self::Adam | Self::AdamW => Arc::new(Adam { betas, eps: 1e-8, decoupled: self == Self::AdamW }),
            Self::Sgd => Arc::new(Sgd { momentum: betas.first, nesterov: false }),
            Self::Lion => Arc::new(Lion { betas }),
        }
    }
}

/// An optimizer: it may keep values for every trainable element, and appends the update to a step's graph. A
/// [`Trainer`](super::Trainer::with_optimizer) takes one, and a [`Minimiser`](super::Minimiser) in a graph of your own.
///
/// A step without an update (its loss or a gradient is not finite) must change nothing: write with [`Graph::assign`] and
/// [`Update::ok`].
///
/// ```
/// use landfall::{Engine, Error, Graph, Value};
/// use landfall_train::nn::{Linear, Parameters, loss};
/// use landfall_train::train::{Arrays, Moment, Optimizer, Trainer, TrainingOptions, Update};
///
/// /// Moves each parameter by the learning rate, against the sign of its gradient.
/// #[derive(Debug)]
/// struct SignDescent;
///
/// impl Optimizer for SignDescent {
///     fn moments(&self) -> &'static [Moment] {
///         &[]
///     }
///     fn elementwise(&self) -> bool {
///         true
///     }
///     fn update(&self, g: &Graph, u: &Update) -> Result<Value, Error> {
///         let step = g.mul(g.sign(u.scaled_gradients(g)?)?, u.rate(g)?)?;
///         g.assign(u.parameters, g.sub(u.parameters, step)?, u.ok)
///     }
/// }
///
/// let data = Arrays::new().with("x", [4, 1], vec![1.0f32; 4])?.with("y", [4, 1], vec![9.0f32; 4])?;
/// let mut p = Parameters::new();
/// let layer = Linear::new(&mut p, "layer", 1, 1);
/// let options = TrainingOptions { batch: 4, lr: 0.5, ..TrainingOptions::default() };
/// let mut trainer = Trainer::with_optimizer(&Engine::cpu()?, &p, &data, options, &SignDescent, |cx, batch| {
///     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
/// })?;
/// let before = trainer.state.read::<f32>("layer.weight")?[0];
/// trainer.step()?;
/// assert_eq!(trainer.state.read::<f32>("layer.weight")?[0], before + 0.5);
/// # Ok::<(), landfall::Error>(())
/// ```
pub trait Optimizer: Debug + Send + Sync {
    /// What it keeps for every trainable element, in a slab laid out as the parameters', zeros at first: none, one or two.
    fn moments(&self) -> &'static [Moment];
    /// Whether the update of an element needs nothing of other elements than what [`Update`] says of all: then ranks may each update
    /// a part of a group ([`TrainingOptions::shard_optimizer`]), with the same result. Not so with a norm of a group, for instance.
    fn elementwise(&self) -> bool {
        false
    }
    /// Appends the update of these parameters and gives their new values.
    ///
    /// # Errors
    /// A rule that an op's arguments violate.
    fn update(&self, g: &Graph, update: &Update) -> Result<Value, Error>;
}

/// What an optimizer updates: a group of parameters, packed one after the other in one dimension, or a rank's part of them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Update {
    /// The parameters.
    pub parameters: Value,
    /// Their gradients, before `scale`.
    pub gradients: Value,
    /// The optimizer's moments, in its order.
    pub moments: Vec<Value>,
    /// The step's cursor, which holds the number of the step ([`ops::cursor`]).
    pub cursor: Value,
    /// Learning rate, an f64 scalar.
    pub lr: Value,
    /// Factor of the gradients, a scalar: it clips them and undoes a loss scale.
    pub scale: Value,
    /// Whether the step is sound, a bool scalar.
    pub ok: Value,
    /// Weight decay of the first elements.
    pub weight_decay: f64,
    /// How many these are: what decays comes first, which are matrices, and vectors of a group with a weight decay of its own.
    pub decay_elements: usize,
}

impl Update {
    /// These elements of it: all that decay, or all that do not.
    fn part(&self, g: &Graph, start: usize, len: usize, weight_decay: f64) -> Result<Self, Error> {
        let slice = |v| g.slice(v, 0, start, len);
        Ok(Self {
            parameters: slice(self.parameters)?,
            gradients: slice(self.gradients)?,
            moments: self.moments.iter().map(|&m| slice(m)).collect::<Result<_, _>>()?,
            weight_decay,
            decay_elements: if weight_decay == 0.0 { 0 } else { len },
            ..*self
        })
    }

    /// What decays and what does not, as updates of their own. For optimizers that are written in ops on whole tensors.
    ///
    /// ```
    /// use landfall::{Error, Graph, Value};
    /// use landfall_train::train::Update;
    ///
    /// /// Gradient descent with decoupled weight decay.
    /// fn update(g: &Graph, update: &Update) -> Result<Value, Error> {
    ///     let mut new = Vec::new();
    ///     for u in update.parts(g)? {
    ///         let decayed = g.affine(u.parameters, u.weight_decay, 0.0)?; // 0 for vectors
    ///         let step = g.mul(g.add(u.scaled_gradients(g)?, decayed)?, u.rate(g)?)?;
    ///         new.push(g.assign(u.parameters, g.sub(u.parameters, step)?, u.ok)?);
    ///     }
    ///     g.concat(&new, 0)
    /// }
    /// ```
    ///
    /// # Errors
    /// None that a valid update can cause.
    pub fn parts(&self, g: &Graph) -> Result<Vec<Self>, Error> {
        let n = g.shape(self.parameters).elements();
        let cut = if self.weight_decay == 0.0 { 0 } else { self.decay_elements.min(n) };
        if cut == 0 || cut == n {
            return Ok(vec![self.part(g, 0, n, if cut == 0 { 0.0 } else { self.weight_decay })?]);
        }
        Ok(vec![self.part(g, 0, cut, self.weight_decay)?, self.part(g, cut, n - cut, 0.0)?])
    }

    /// The gradients times their factor, in the dtype of the parameters.
    ///
    /// # Errors
    /// None that a valid update can cause.
    pub fn scaled_gradients(&self, g: &Graph) -> Result<Value, Error> {
        let dtype = g.spec(self.parameters).dtype;
        g.mul(g.cast(self.gradients, dtype)?, g.cast(self.scale, dtype)?)
    }

    /// The learning rate in the dtype of the parameters.
    ///
    /// # Errors
    /// None that a valid update can cause.
    pub fn rate(&self, g: &Graph) -> Result<Value, Error> {
        g.cast(self.lr, g.spec(self.parameters).dtype)
    }
}

/// Adam (Kingma & Ba 2015), with bias-corrected moments: one kernel for all elements ([`ops::Adam`]).
///
/// ```
/// use landfall_train::train::{Adam, Betas, Optimizer};
/// let optimizer = Adam { betas: Betas { first: 0.9, second: 0.95 }, eps: 1e-8, decoupled: true }; // for `Trainer::with_optimizer`
/// assert_eq!(optimizer.moments().len(), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Decay rates of the moments.
    pub betas: Betas,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Whether weight decay shrinks the parameters (AdamW) or is added to the gradient.
    pub decoupled: bool,
}

impl Optimizer for Adam {
    fn moments(&self) -> &'static [Moment] {
        const { &[FIRST_MOMENT, SECOND_MOMENT] }
    }
    fn elementwise(&self) -> bool {
        true
    }
    fn update(&self, g: &Graph, u: &Update) -> Result<Value, Error> {
        let op = ops::Adam {
            beta1: self.betas.first,
            beta2: self.betas.second,
            eps: self.eps,
            weight_decay: u.weight_decay,
            decoupled: self.decoupled,
            decay_elements: u.decay_elements,
        };
        let args = [u.parameters, u.gradients, u.moments[0], u.moments[1], u.cursor, u.lr, u.scale, u.ok];
        Ok(g.op(op, &args)?[0])
    }
}

/// Stochastic gradient descent: with `b ← momentum · b + gradient`, `parameter ← parameter − lr · b`, as `torch.optim.SGD`
/// without dampening. Weight decay is added to the gradient.
///
/// ```
/// use landfall_train::train::{Optimizer, Sgd};
/// let optimizer = Sgd { momentum: 0.9, nesterov: true }; // for `Trainer::with_optimizer`
/// assert_eq!(optimizer.moments().len(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    /// Decay rate of the sum of gradients; 0 for none.
    pub momentum: f64,
    /// Whether the step goes along `gradient + momentum · b` (Nesterov 1983) instead of `b`.
    pub nesterov: bool,
}

impl Optimizer for Sgd {
    fn moments(&self) -> &'static [Moment] {
        if self.momentum == 0.0 { &[] } else { const { &[FIRST_MOMENT] } }
    }
    fn elementwise(&self) -> bool {
        true
    }
    fn update(&self, g: &Graph, update: &Update) -> Result<Value, Error> {
        decay_rate("sgd", "momentum", self.momentum)?;
        if self.nesterov && self.momentum == 0.0 {
            let expected = "above 0 with nesterov, which looks ahead along it";
            let rule = landfall::Rule::Attribute { name: "momentum", value: 0.0, expected };
            return Err(rule.of("sgd", &[], None, None).into());
        }
        each_part(g, update, |g, u| {
            let mut step = u.scaled_gradients(g)?;
            if u.weight_decay != 0.0 {
                step = g.add(step, g.affine(u.parameters, u.weight_decay, 0.0)?)?;
            }
            if let Some(&sum) = u.moments.first() {
                let gradient = step;
                step = g.add(g.affine(sum, self.momentum, 0.0)?, gradient)?;
                g.assign(sum, step, u.ok)?;
                if self.nesterov {
                    step = g.add(gradient, g.affine(step, self.momentum, 0.0)?)?;
                }
            }
            g.assign(u.parameters, g.sub(u.parameters, g.mul(step, u.rate(g)?)?)?, u.ok)
        })
    }
}

/// Lion (Chen et al. 2023): `parameter ← parameter − lr · (sign(β₁·m + (1 − β₁)·gradient) + weight decay · parameter)`, then
/// `m ← β₂·m + (1 − β₂)·gradient`.
///
/// ```
/// use landfall_train::train::{Betas, Lion, Optimizer};
/// let optimizer = Lion { betas: Betas { first: 0.9, second: 0.99 } }; // for `Trainer::with_optimizer`
/// assert_eq!(optimizer.moments().len(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lion {
    /// Weight of the moment in the step's direction, and its decay rate.
    pub betas: Betas,
}

impl Optimizer for Lion {
    fn moments(&self) -> &'static [Moment] {
        const { &[FIRST_MOMENT] }
    }
    fn elementwise(&self) -> bool {
        true
    }
    fn update(&self, g: &Graph, update: &Update) -> Result<Value, Error> {
        decay_rate("lion", "betas.first", self.betas.first)?;
        decay_rate("lion", "betas.second", self.betas.second)?;
        each_part(g, update, |g, u| {
            let (gradient, m) = (u.scaled_gradients(g)?, u.moments[0]);
            let mean = |beta: f64| g.add(g.affine(m, beta, 0.0)?, g.affine(gradient, 1.0 - beta, 0.0)?);
            let mut step = g.sign(mean(self.betas.first)?)?;
            if u.weight_decay != 0.0 {
                step = g.add(step, g.affine(u.parameters, u.weight_decay, 0.0)?)?;
            }
            let moved = g.sub(u.parameters, g.mul(step, u.rate(g)?)?)?;
            g.assign(m, mean(self.betas.second)?, u.ok)?;
            g.assign(u.parameters, moved, u.ok)
        })
    }
}

/// Refuses a decay rate outside of [0, 1).
fn decay_rate(optimizer: &'static str, name: &'static str, value: f64) -> Result<(), Error> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    let rule = landfall::Rule::Attribute { name, value, expected: "in [0, 1)" };
    Err(rule.of(optimizer, &[], None, None).into())
}

/// Appends an update to each part of a group and gives all new values.
fn each_part(
    g: &Graph,
    update: &Update,
    of: impl Fn(&Graph, &Update) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let new = update.parts(g)?.iter().map(|part| of(g, part)).collect::<Result<Vec<_>, _>>()?;
    match new.as_slice() {
        [one] => Ok(*one),
        many => g.concat(many, 0),
    }
}

/// A scalar in the dtype of the learning rate.
pub(super) fn scaled_rate(g: &Graph, lr: Value, factor: f64) -> Result<Value, Error> {
    debug_assert_eq!(g.spec(lr), landfall::Spec::new(DType::F64, Shape::SCALAR), "rates are f64 scalars");
    if factor == 1.0 { Ok(lr) } else { g.affine(lr, factor, 0.0) }
}
