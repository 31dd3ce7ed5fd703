//! The calls that properties are checked on: an op's samples, with data, in every dtype that it takes.

use landfall::cuda::launches;
use landfall::ops::{self, Alias, Cost, Data, Output, Sample, SampleArg, Tested};
use landfall::{DType, Error, HostTensor, OpError, Rule, Spec};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Why a property does not hold.
pub(crate) struct Failure(pub(crate) String);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self(e.to_string())
    }
}

impl From<OpError> for Failure {
    fn from(e: OpError) -> Self {
        Self(e.to_string())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self(text)
    }
}

pub(crate) type Check<T = ()> = Result<T, Failure>;

/// Fails with a text unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        // A condition on floats is false for NaN, so its opposite must not be written as another comparison.
        match $condition {
            true => {}
            false => return Err($crate::case::Failure(format!($($text)+))),
        }
    };
}
pub(crate) use ensure;

/// One call that must succeed.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) op: Arc<dyn Tested>,
    /// Number of the sample.
    pub(crate) sample: usize,
    pub(crate) args: Vec<SampleArg>,
    /// The dtype under test.
    pub(crate) dtype: DType,
    /// Arguments, rounded to their dtypes.
    pub(crate) inputs: Vec<HostTensor>,
    pub(crate) outputs: Vec<Spec>,
}

/// Elements, and operations, from which on a case is run in one dtype only by the properties that call it many times.
const LARGE: (usize, usize) = (50_000, 500_000);

impl Case {
    pub(crate) fn specs(&self) -> Vec<Spec> {
        self.inputs.iter().map(|h| h.spec).collect()
    }

    /// The alias rule of an output; outputs without one share no memory.
    pub(crate) fn alias(&self, output: usize) -> Alias {
        ops::alias(self.op.as_ref(), output)
    }

    /// The input that output `output` must be, if it is an update.
    pub(crate) fn updated(&self, output: usize) -> Option<usize> {
        self.op.outputs().get(output).and_then(Output::updated)
    }

    /// Whether input `input` is updated by the call.
    pub(crate) fn updates(&self, input: usize) -> bool {
        (0..self.outputs.len()).any(|j| self.updated(j) == Some(input))
    }

    pub(crate) fn reference(&self) -> Check<Vec<HostTensor>> {
        let want = self.op.reference(&self.inputs);
        let specs: Vec<Spec> = want.iter().map(|w| w.spec).collect();
        ensure!(specs == self.outputs, "reference gives {specs:?}, infer says {:?}", self.outputs);
        Ok(want)
    }

    pub(crate) fn large(&self) -> bool {
        let specs = self.specs();
        let elements = specs.iter().chain(&self.outputs).map(|s| s.shape.elements()).max();
        elements > Some(LARGE.0) || Cost::of(self.op.as_ref(), &specs).flops > LARGE.1
    }

    /// The same case with other data.
    pub(crate) fn with_inputs(&self, inputs: Vec<HostTensor>) -> Self {
        Self { inputs: inputs.iter().map(HostTensor::rounded).collect(), ..self.clone() }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specs: Vec<String> = self.specs().iter().map(Spec::to_string).collect();
        write!(f, "{} sample {} {:?}({})", self.op.name(), self.sample, self.op, specs.join(", "))
    }
}

/// Every case of an op. What the op refuses is a dtype that it does not take; a sample that no dtype runs is an error.
pub(crate) fn cases(prototype: &dyn Tested) -> Check<Vec<Case>> {
    let mut all = Vec::new();
    for (index, sample) in good(prototype) {
        let found = all.len();
        let mut why = Vec::new();
        for dtype in dtypes(&sample) {
            match case(&sample, index, dtype) {
                Ok(case) => all.push(case),
                Err(rule) => why.push(format!("{dtype}: {rule}")),
            }
        }
        ensure!(
            all.len() > found,
            "{} sample {index} runs in no dtype: {}",
            prototype.name(),
            why.join("; ")
        );
    }
    Ok(all)
}

/// Samples that must succeed, with their numbers.
fn good(prototype: &dyn Tested) -> impl Iterator<Item = (usize, Sample)> {
    prototype.samples().into_iter().enumerate().filter(|(_, s)| s.refused.is_none())
}

/// The dtypes to try a sample in: one where all of its arguments have theirs.
fn dtypes(sample: &Sample) -> Vec<DType> {
    if generic(sample) {
        return DType::ALL.to_vec();
    }
    let fixed = sample.args.first().and_then(|a| a.dtype);
    let made = || sample.op.infer(&[]).ok().map(|o| o[0].dtype);
    fixed.or_else(made).into_iter().collect()
}

pub(crate) fn generic(sample: &Sample) -> bool {
    sample.args.iter().any(|a| a.dtype.is_none())
}

pub(crate) fn specs(args: &[SampleArg], dtype: DType) -> Vec<Spec> {
    args.iter().map(|a| Spec::new(a.dtype.unwrap_or(dtype), a.shape)).collect()
}

fn case(sample: &Sample, index: usize, dtype: DType) -> Result<Case, Rule> {
    let specs = specs(&sample.args, dtype);
    let outputs = sample.op.infer(&specs)?.to_vec();
    let inputs = data(sample, index, &specs);
    let (op, args) = (sample.op.clone(), sample.args.clone());
    Ok(Case { op, sample: index, args, dtype, inputs, outputs })
}

/// The arguments of a sample, from its op's name, its number and [`data_seed`].
pub(crate) fn data(sample: &Sample, index: usize, specs: &[Spec]) -> Vec<HostTensor> {
    let args = sample.args.iter().zip(specs).enumerate();
    let random = |i: usize| Random::new(sample.op.name(), (data_seed() << 32) + index * 64 + i);
    args.map(|(i, (arg, &spec))| fill(&arg.data, spec, &mut random(i))).collect()
}

/// The seed of all data: 0, or what `LANDFALL_DATA_SEED` says.
fn data_seed() -> usize {
    static SEED: OnceLock<usize> = OnceLock::new();
    let read = || match std::env::var("LANDFALL_DATA_SEED") {
        Err(_) => 0,
        Ok(text) => match text.parse::<u32>() {
            Ok(seed) => seed as usize,
            Err(e) => panic!("LANDFALL_DATA_SEED is {text:?}; it must be a whole number: {e}"),
        },
    };
    *SEED.get_or_init(read)
}

pub(crate) fn fill(data: &Data, spec: Spec, random: &mut Random) -> HostTensor {
    let value = |i: usize| match data {
        Data::Range(lo, hi) => fit(spec.dtype, lo + (hi - lo) * random.uniform()),
        Data::Wide => fit(spec.dtype, random.wide()),
        Data::Int(lo, hi) => (*lo as f64 + (hi - lo) as f64 * random.uniform()).floor(),
        Data::Exact(values) => values.get(i).copied().unwrap_or(0.0),
    };
    HostTensor::from_fn(spec, value).rounded()
}

/// A number drawn for floats as one of this dtype: its magnitude where there is no sign, its sign as a truth value.
fn fit(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::U8 => x.abs(),
        DType::Bool => f64::from(u8::from(x > 0.0)),
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 | DType::I32 | DType::I64 => x,
    }
}

/// Random numbers from a text and a number: the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(text: &str, number: usize) -> Self {
        // FNV-1a.
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self(hash ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [−1, 1).
    pub(crate) fn sign(&mut self) -> f64 {
        2.0 * self.uniform() - 1.0
    }

    /// Standard normal, one in 16 exactly zero and one in 16 a thousand times as large.
    fn wide(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.uniform()).cos();
        match self.next() % 16 {
            0 => 0.0,
            1 => 1000.0 * normal,
            _ => normal,
        }
    }
}

/// Which cases a property is checked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All.
    All,
    /// All, but large ones in one dtype only.
    Light,
}

/// The cases that properties are checked on: all, or with `LANDFALL_SAMPLES=few` those of [`few`].
fn chosen(prototype: &dyn Tested) -> Check<Vec<Case>> {
    let all = cases(prototype)?;
    match std::env::var("LANDFALL_SAMPLES").as_deref() {
        Err(_) => Ok(all),
        Ok("few") => few(all),
        Ok(other) => Err(Failure(format!("LANDFALL_SAMPLES is {other:?}, it must be \"few\" or not set"))),
    }
}

/// Of the cases of an op as few as launch every CUDA kernel that all of them launch, in every dtype: large ones only
/// where no other launches a kernel, otherwise the one with the most elements, in which most threads have work.
pub(crate) fn few(mut cases: Vec<Case>) -> Check<Vec<Case>> {
    let elements = |c: &Case| c.specs().iter().chain(&c.outputs).map(|s| s.shape.elements()).sum::<usize>();
    cases.sort_by_cached_key(|c| (c.large(), Reverse(elements(c))));
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for case in cases {
        let launched = launches(case.op.as_ref(), &case.specs())?;
        let new = launched.into_iter().filter(|kernel| seen.insert(kernel.clone())).count();
        if new > 0 {
            kept.push(case);
        }
    }
    Ok(kept)
}

/// Checks a property on the cases of an op; a failure says on which.
pub(crate) fn each(prototype: &dyn Tested, which: Which, mut property: impl FnMut(&Case) -> Check) -> Check {
    let all = chosen(prototype)?;
    let mut large = None;
    for case in &all {
        if which == Which::Light && case.large() {
            if large == Some(case.sample) {
                continue;
            }
            large = Some(case.sample);
        }
        property(case).map_err(|Failure(why)| Failure(format!("{case}: {why}")))?;
    }
    Ok(())
}
