//! Parameters and buffers of a model: names, shapes, initial values, who decays and who is frozen.

use landfall::rng::Rng;
use landfall::{DType, Shape, State, StateSpec};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Initial values of a parameter.
///
/// ```
/// use landfall_train::nn::Init;
/// assert_eq!(Init::fan_in(4), Init::Uniform(0.5)); // PyTorch's linear layers
/// assert_eq!(Init::xavier_uniform(3, 3), Init::Uniform(1.0));
/// assert_eq!(Init::kaiming_normal(8), Init::Normal(0.5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Every element this value.
    Constant(f64),
    /// Uniform in (−bound, bound).
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
}

/// Initial values whose spread keeps a layer's output at the scale of its input. `fan_in` and `fan_out` are a layer's
/// numbers of inputs and outputs.
impl Init {
    /// PyTorch's default of linear layers: uniform in ±1/√fan_in, for weight and bias.
    #[must_use]
    pub fn fan_in(fan_in: usize) -> Self {
        Self::Uniform(1.0 / (fan_in.max(1) as f64).sqrt())
    }

    /// Glorot & Bengio 2010, uniform form: bound √(6 / (fan_in + fan_out)).
    #[must_use]
    pub fn xavier_uniform(fan_in: usize, fan_out: usize) -> Self {
        Self::Uniform((6.0 / (fan_in + fan_out).max(1) as f64).sqrt())
    }

    /// He et al. 2015, normal form, for layers before a ReLU: standard deviation √(2 / fan_in).
    #[must_use]
    pub fn kaiming_normal(fan_in: usize) -> Self {
        Self::Normal((2.0 / fan_in.max(1) as f64).sqrt())
    }

    /// He et al. 2015, uniform form: bound √(6 / fan_in).
    #[must_use]
    pub fn kaiming_uniform(fan_in: usize) -> Self {
        Self::Uniform((6.0 / fan_in.max(1) as f64).sqrt())
    }

    /// Glorot & Bengio 2010, normal form: standard deviation √(2 / (fan_in + fan_out)).
    #[must_use]
    pub fn xavier_normal(fan_in: usize, fan_out: usize) -> Self {
        Self::Normal((2.0 / (fan_in + fan_out).max(1) as f64).sqrt())
    }
}

/// One trainable (or frozen) tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name in the state.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Initial values.
    pub init: Init,
    /// Whether weight decay applies.
    pub decay: bool,
    /// Whether the optimizer leaves it alone.
    pub frozen: bool,
    /// Number of its [group](Parameters::group); 0 is everything that no group names.
    pub group: usize,
    /// Names in checkpoints: equal parts along axis 0, in order. One part is the tensor itself.
    pub parts: Vec<String>,
    /// The line that made it, for errors.
    pub at: &'static Location<'static>,
}

impl Parameter {
    /// The shape of each of its parts in checkpoints.
    ///
    /// ```
    /// use landfall_train::nn::{Init, Parameters};
    /// let mut p = Parameters::new();
    /// let both = p.add_stacked("kv", &["k", "v"], [8, 3], Init::Constant(0.0));
    /// assert_eq!(p.get(both).part().dims(), [4, 3]);
    /// ```
    #[must_use]
    pub fn part(&self) -> Shape {
        let rows = self.shape.dims().first().copied().unwrap_or(1);
        match self.parts.len() {
            0 | 1 => self.shape,
            parts => self.shape.with(0, rows / parts),
        }
    }
}

/// A tensor that is not trained but belongs to the model: running statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Its name in the state and in checkpoints.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Every element's initial value.
    pub init: f64,
}

/// A parameter of [`Parameters`], by number. Of use with those that it was added to, and their copies, alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParameterId {
    /// The [`Parameters`] that it was added to.
    of: u64,
    pub(super) index: usize,
}

/// The [adapter](Parameters::adapt) of a part of a parameter, by numbers of parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Adapter {
    /// The parameter and its part.
    pub(super) of: (usize, usize),
    /// A and B.
    pub(super) factors: [usize; 2],
    pub(super) scale: f64,
}

/// All parameters and buffers of a model, in the order its layers made them.
///
/// ```
/// use landfall_train::nn::{Init, Linear, Parameters};
/// let mut p = Parameters::new();
/// Linear::new(&mut p, "first", 2, 8); // layers add their own
/// let bias = p.add("bias", [8], Init::Constant(0.0));
/// assert_eq!(p.get(bias).name, "bias");
/// let names: Vec<&str> = p.list().iter().map(|p| p.name.as_str()).collect();
/// assert_eq!(names, ["first.weight", "first.bias", "bias"]);
/// assert_eq!(p.count(), 2 * 8 + 8 + 8);
/// ```
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Which ones these are: a copy is the same, so that layers are of both.
    number: u64,
    pub(super) list: Vec<Parameter>,
    buffers: Vec<Buffer>,
    /// Extra scalars that checkpoints in the official form hold for each name: `(name, value)`.
    constants: Vec<(String, f64)>,
    /// Names of step counters that checkpoints in the official form hold.
    counters: Vec<String>,
    groups: Vec<Group>,
    pub(super) adapters: Vec<Adapter>,
}

/// None yet.
impl Default for Parameters {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            list: Vec::new(),
            buffers: Vec::new(),
            constants: Vec::new(),
            counters: Vec::new(),
            groups: Vec::new(),
            adapters: Vec::new(),
        }
    }
}

/// Equal in all that they hold, whichever they are.
impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        (&self.list, &self.buffers, &self.constants) == (&other.list, &other.buffers, &other.constants)
            && (&self.counters, &self.groups) == (&other.counters, &other.groups)
            && self.adapters == other.adapters
    }
}

/// A group of parameters that the optimizer treats alike: its factor of the learning rate and its weight decay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// Factor of the learning rate, at least 0.
    pub lr: f64,
    /// Weight decay in place of the options', at least 0: of all parameters of the group, vectors too.
    pub weight_decay: Option<f64>,
}

impl Default for Group {
    fn default() -> Self {
        Self { lr: 1.0, weight_decay: None }
    }
}

impl Parameters {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter. Tensors of rank 2 and more decay; vectors (biases, norms) do where their group has a weight decay.
    #[track_caller]
    pub fn add(&mut self, name: &str, shape: impl Into<Shape>, init: Init) -> ParameterId {
        self.add_stacked(name, &[name], shape, init)
    }

    /// Adds one parameter that checkpoints hold as several: equal parts along axis 0.
    #[track_caller]
    pub fn add_stacked(
        &mut self,
        name: &str,
        parts: &[&str],
        shape: impl Into<Shape>,
        init: Init,
    ) -> ParameterId {
        let shape = shape.into();
        self.list.push(Parameter {
            name: name.to_owned(),
            shape,
            init,
            decay: shape.rank() >= 2,
            frozen: false,
            group: 0,
            parts: parts.iter().map(|&p| p.to_owned()).collect(),
            at: Location::caller(),
        });
        ParameterId { of: self.number, index: self.list.len() - 1 }
    }

    /// Adds a buffer.
    pub fn add_buffer(&mut self, name: &str, shape: impl Into<Shape>, init: f64) {
        self.buffers.push(Buffer { name: name.to_owned(), shape: shape.into(), init });
    }

    /// Says that checkpoints hold this constant scalar.
    pub fn add_constant(&mut self, name: &str, value: f64) {
        self.constants.push((name.to_owned(), value));
    }

    /// Says that checkpoints hold the number of training steps under this name.
    pub fn add_counter(&mut self, name: &str) {
        self.counters.push(name.to_owned());
    }

    /// Leaves the parameters under `prefix` as they are: those with this dotted name, and those whose names begin with it and
    /// a dot. `head`, or `head.`, is `head.weight` and neither `multihead.weight` nor `header.weight`; an empty one is all.
    /// Returns how many that are.
    ///
    /// ```
    /// use landfall_train::nn::{Linear, Parameters};
    /// let mut p = Parameters::new();
    /// Linear::new(&mut p, "multihead", 8, 8);
    /// Linear::new(&mut p, "head", 8, 2);
    /// assert_eq!(p.freeze("head."), 2);
    /// assert_eq!(p.trainable().len(), 2);
    /// ```
    pub fn freeze(&mut self, prefix: &str) -> usize {
        self.freeze_where(|name| is_under(name, prefix))
    }

    /// Leaves every parameter whose name contains `pattern`, anywhere in it, as it is. Returns how many that are.
    ///
    /// ```
    /// use landfall_train::nn::{Linear, Parameters};
    /// let mut p = Parameters::new();
    /// Linear::new(&mut p, "multihead", 8, 8);
    /// Linear::new(&mut p, "head", 8, 2);
    /// assert_eq!(p.freeze_containing("head."), 4);
    /// ```
    pub fn freeze_containing(&mut self, pattern: &str) -> usize {
        self.freeze_where(|name| name.contains(pattern))
    }

    fn freeze_where(&mut self, hit: impl Fn(&str) -> bool) -> usize {
        self.list.iter_mut().filter(|p| hit(&p.name)).map(|p| p.frozen = true).count()
    }

    /// Makes a group of the parameters under `prefix`, as [`Parameters::freeze`] takes it, that are in no group yet: the optimizer takes
    /// this factor of the learning rate and this weight decay for them. Returns how many parameters that are.
    ///
    /// ```
    /// use landfall_train::nn::{Group, Linear, Parameters};
    /// let mut p = Parameters::default();
    /// Linear::new(&mut p, "multihead", 8, 8);
    /// Linear::new(&mut p, "head", 8, 2);
    /// assert_eq!(p.group("head.", Group { lr: 10.0, weight_decay: Some(0.0) }), 2);
    /// ```
    pub fn group(&mut self, prefix: &str, group: Group) -> usize {
        self.group_where(|name| is_under(name, prefix), group)
    }

    /// As [`Parameters::group`], of every parameter whose name contains `pattern`, anywhere in it.
    ///
    /// ```
    /// use landfall_train::nn::{Group, Linear, Parameters};
    /// let mut p = Parameters::default();
    /// Linear::new(&mut p, "multihead", 8, 8);
    /// Linear::new(&mut p, "head", 8, 2);
    /// assert_eq!(p.group_containing("head.", Group { lr: 10.0, weight_decay: Some(0.0) }), 4);
    /// ```
    pub fn group_containing(&mut self, pattern: &str, group: Group) -> usize {
        self.group_where(|name| name.contains(pattern), group)
    }

    fn group_where(&mut self, hit: impl Fn(&str) -> bool, group: Group) -> usize {
        self.groups.push(group);
        let number = self.groups.len();
        let hit = self.list.iter_mut().filter(|p| p.group == 0 && hit(&p.name));
        hit.map(|p| {
            p.group = number;
            p.decay |= group.weight_decay.is_some();
        })
        .count()
    }

    /// The groups, in order.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group of this number.
    pub(crate) fn group_of(&self, number: usize) -> Group {
        number.checked_sub(1).and_then(|i| self.groups.get(i)).copied().unwrap_or_default()
    }

    /// The parameter of this number, which was added to these parameters or to those that they are a copy of.
    #[must_use]
    pub fn get(&self, id: ParameterId) -> &Parameter {
        &self.list[id.index]
    }

    /// The parameter of this number, if it was added here, or before these were copied.
    pub(super) fn own(&self, id: ParameterId) -> Option<&Parameter> {
        self.list.get(id.index).filter(|_| id.of == self.number)
    }

    /// Every parameter, in order.
    #[must_use]
    pub fn list(&self) -> &[Parameter] {
        &self.list
    }

    /// Every buffer, in order.
    #[must_use]
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Constant scalars of checkpoints.
    #[must_use]
    pub fn constants(&self) -> &[(String, f64)] {
        &self.constants
    }

    /// Names of step counters of checkpoints.
    #[must_use]
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// Trainable parameters in the order of the optimizer's slab: by group, of each those that decay, then the others.
    #[must_use]
    pub fn trainable(&self) -> Vec<&Parameter> {
        let mut all: Vec<&Parameter> = self.list.iter().filter(|p| !p.frozen).collect();
        all.sort_by_key(|p| (p.group, !p.decay));
        all
    }

    /// Number of trainable elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.iter().filter(|p| !p.frozen).map(|p| p.shape.elements()).sum()
    }

    /// A state of all parameters and buffers and nothing else, for a forward pass outside of training.
    ///
    /// ```
    /// use landfall::{DType, Engine, Graph, Program, State};
    /// use landfall_train::nn::{Context, Init, Linear, Mode, Parameters};
    /// let mut p = Parameters::new();
    /// let layer = Linear::with_init(&mut p, "layer", 2, 1, Init::Constant(3.0), Init::Constant(1.0));
    /// let engine = Engine::cpu()?;
    /// let spec = p.state_spec(DType::F32)?;
    /// let mut state = State::new(&engine, &spec)?;
    /// p.initialise(&mut state, 0)?;
    ///
    /// let g = Graph::new(&spec);
    /// let cx = Context::new(&g, &p, Mode::Evaluate);
    /// g.output("y", layer.forward(&cx, g.input("x", DType::F32, [1, 2]))?);
    /// let mut program = Program::compile(&engine, &state, "forward", &g)?;
    /// program.write("x", &[1.0f32, 2.0])?;
    /// program.run(&mut state)?;
    /// assert_eq!(program.read::<f32>("y")?, [10.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`landfall::Error::TwiceNamed`] where two have one name.
    pub fn state_spec(&self, dtype: DType) -> Result<Arc<StateSpec>, landfall::Error> {
        let mut spec = StateSpec::new();
        let parameters: Vec<(String, Shape)> = self.list.iter().map(|p| (p.name.clone(), p.shape)).collect();
        let buffers: Vec<(String, Shape)> = self.buffers.iter().map(|b| (b.name.clone(), b.shape)).collect();
        spec.add("parameters", dtype, &parameters)?;
        spec.add("buffers", dtype, &buffers)?;
        Ok(Arc::new(spec))
    }

    /// Writes initial values into a state. Each parameter draws from a stream of its own, so that a model's values do
    /// not depend on what other parameters there are.
    ///
    /// ```
    /// use landfall::{DType, Engine, State, StateSpec};
    /// use landfall_train::nn::{Init, Parameters};
    /// let mut p = Parameters::new();
    /// p.add("w", [2, 2], Init::Constant(0.5));
    /// let mut spec = StateSpec::new();
    /// spec.add("parameters", DType::F32, &[("w".to_owned(), [2, 2].into())])?;
    /// let mut state = State::new(&Engine::cpu()?, &std::sync::Arc::new(spec))?;
    /// p.initialise(&mut state, 1)?;
    /// assert_eq!(state.read::<f32>("w")?, [0.5; 4]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`landfall::Error::NoEntry`] when the state was made for another model.
    pub fn initialise(&self, state: &mut State, seed: u64) -> Result<(), landfall::Error> {
        let values = |p: &Parameter| {
            let mut rng = Rng::new(seed, stream(&p.name));
            let mut draw = |_| match p.init {
                Init::Constant(c) => c,
                Init::Uniform(bound) => bound * (2.0 * rng.uniform() - 1.0),
                Init::Normal(std) => std * rng.normal(),
            };
            (0..p.shape.elements()).map(&mut draw).collect()
        };
        self.begin_with(state, self.list.iter().map(values))
    }

    /// Writes these initial values of the parameters, in order, and those of the buffers into a state.
    pub(crate) fn begin_with(
        &self,
        state: &mut State,
        values: impl IntoIterator<Item = Vec<f64>>,
    ) -> Result<(), landfall::Error> {
        for (p, values) in self.list.iter().zip(values) {
            state.write_host(&p.name, &landfall::HostTensor::new(DType::F64, p.shape, values)?)?;
        }
        for b in &self.buffers {
            let spec = landfall::Spec::new(DType::F64, b.shape);
            state.write_host(&b.name, &landfall::HostTensor::from_fn(spec, |_| b.init))?;
        }
        Ok(())
    }
}

/// Whether a dotted name is a prefix, in whole segments, or begins with it.
fn is_under(name: &str, prefix: &str) -> bool {
    let prefix = prefix.strip_suffix('.').unwrap_or(prefix);
    let rest = name.strip_prefix(prefix);
    prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A stream number of a name: FNV-1a, which is fixed for ever and the same everywhere.
fn stream(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
}
