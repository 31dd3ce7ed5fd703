//! Random tensors. Element `i` depends on (seed, step, micro-batch, stream, i) alone: not on threads, layouts or launch
//! shapes. In micro-batch m it is given word `m·2⁴² + i` of its stream.

pub(in crate::ops) mod cuda;

use crate::contract::cursor::{self, MICRO, SEED, STEP};
use crate::contract::{
    Body, Data, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes, rules,
};
use crate::kernel::cpu::{Call, ViewMut};
use crate::ops::elementwise::pointwise::SHAPES;
use crate::rng;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec, collapse, with_dtype};

op_list! { Bernoulli, Uniform }

/// Words drawn at once: 1 KB, which stay in the first-level cache with the values made of them, and which is copied by vector
/// registers and not by the instruction for long strings.
pub(in crate::ops) const TILE: usize = 256;
/// Elements between those that are worked on and those that are asked for.
pub(in crate::ops) const AHEAD: usize = 2 * TILE;
/// Elements that one task works on.
pub(in crate::ops) const GRAIN: usize = 32 * 1024;

/// The words of one op at one step.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Words {
    seed: u64,
    step: u32,
    stream: u32,
    /// The word of element 0.
    first: u64,
}

/// Words between those of neighbouring micro-batches, as a power of two: more than a tensor has elements.
const MICRO_WORDS: u32 = 42;

impl Words {
    pub(in crate::ops) fn new(cursor: &[i64; cursor::LEN], stream: u32) -> Self {
        Self {
            seed: cursor[SEED] as u64,
            step: cursor[STEP] as u32,
            stream,
            first: (cursor[MICRO] as u64) << MICRO_WORDS,
        }
    }

    /// Words `first..first + out.len()`.
    pub(in crate::ops) fn fill(&self, first: u64, out: &mut [u32]) {
        rng::fill_u32(self.seed, self.step, self.stream, self.first.wrapping_add(first), out);
    }

    /// Word `i`, for references.
    pub(in crate::ops) fn get(&self, i: usize) -> u32 {
        rng::block(self.seed, self.step, self.stream, self.first / 4 + i as u64 / 4)[i % 4]
    }
}

/// Fills `out` by tiles: `tile(first, values)` makes elements `first..` in row-major order.
fn generate<T: Element>(call: &Call<'_>, out: ViewMut<'_, T>, tile: impl Fn(usize, &mut [T]) + Sync) {
    if out.elements() == 0 {
        return;
    }
    let mut layout = [*out.layout()];
    collapse(&mut layout);
    let out = out.relaid(layout[0]);
    let outer = out.outer();
    let each = out.elements() / outer;
    call.parallel(out, outer, (GRAIN / each).max(1), |start, mut part| {
        let mut values = [T::from_f64(0.0); TILE];
        let cols = part.cols();
        for r in 0..part.rows() {
            let mut row = part.row_mut(r);
            for col in (0..cols).step_by(TILE) {
                let values = &mut values[..TILE.min(cols - col)];
                tile(start * each + r * cols + col, values);
                match row.as_slice() {
                    Some(row) => row[col..col + values.len()].copy_from_slice(values),
                    None => values.iter().enumerate().for_each(|(j, &v)| row.set(col + j, v)),
                }
            }
        }
    });
}

op_attributes! {
    /// `out_i = low + (high − low) · u_i`, `u_i` uniform in [0, 1) (24 bits, for f64 53), rounded to the dtype once (which
    /// may round up to `high`).
    ///
    /// Argument: `cursor` `i64[8]`. Result: `spec`, a float. Arithmetic in f64. Disjoint. No gradient. Deterministic: the
    /// same on every device. Errors: a dtype that is not a float; `low`, `high` not finite. Source: Salmon, Moraes, Dror
    /// and Shaw 2011 (Philox4x32-10).
    #[derive(Debug, Clone, Copy)]
    pub struct Uniform(cursor) {
        /// Dtype and shape of the result.
        pub spec: Spec = Spec { dtype: DType::F32, shape: Shape::SCALAR } => required,
        /// Lower end.
        pub low: f64 = 0.0,
        /// Upper end.
        pub high: f64 = 1.0,
        /// Which numbers: ops with the same stream draw the same.
        pub stream: u32 = 0,
    }
}

impl Uniform {
    #[inline(always)]
    fn value(&self, unit: f64) -> f64 {
        self.low + (self.high - self.low) * unit
    }
}

impl Op for Uniform {
    fn name(&self) -> &'static str {
        "uniform"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        cursor::rule(&args, 0)?;
        for (name, value) in [("low", self.low), ("high", self.high)] {
            if !value.is_finite() {
                return Err(Rule::Attribute { name, value, expected: "finite" });
            }
        }
        if !self.spec.dtype.is_float() {
            let value = self.spec.dtype.size() as f64;
            return Err(Rule::Attribute {
                name: "element size of an integer result",
                value,
                expected: "that of a float",
            });
        }
        Ok(Outputs::one(self.spec))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn accumulate(&self, _: DType) -> DType {
        DType::F64
    }
    fn body(&self) -> Body {
        Body::Opaque("random numbers depend on counters alone")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("uniform", |op, call| {
                    let op = attributes::<Uniform>(op)?;
                    let words = Words::new(&cursor::read(call, 0)?, op.stream);
                    let dtype = call.output_dtype(0)?;
                    with_dtype!(float dtype, T => uniform::<T>(op, words, call), else Err(Rule::Dtype { arg: 0, dtype, expected: "a float" }))
                }),
                Kernel::cuda("uniform", cuda::uniform),
            ]
        }
    }
    fn flops(&self, _: &[Spec], outputs: &[Spec]) -> usize {
        outputs[0].shape.elements().saturating_mul(2)
    }
}

impl Tested for Uniform {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let words = Words::new(&cursor::of(&args[0]), self.stream);
        vec![HostTensor::from_fn(self.spec, |i| {
            let unit = if self.spec.dtype == DType::F64 {
                let bits = u64::from(words.get(2 * i)) << 21 | u64::from(words.get(2 * i + 1)) >> 11;
                bits as f64 / 2f64.powi(53)
            } else {
                f64::from(words.get(i) >> 8) / 2f64.powi(24)
            };
            self.low + (self.high - self.low) * unit
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let at = sample_cursor();
        let floats = DType::ALL.iter().filter(|d| d.is_float());
        let specs = floats.flat_map(|&dtype| {
            SHAPES.iter().filter_map(move |s| Some(Spec { dtype, shape: Shape::new(s)? }))
        });
        let mut all: Vec<Sample> =
            specs.map(|spec| Sample::new(Self { spec, low: -1.0, ..*self }, vec![at.clone()])).collect();
        let many = Spec::new(DType::F32, [5, 7001]);
        all.push(Sample::new(Self { spec: many, low: 0.0, high: 3.0, stream: 9 }, vec![at.clone()]));
        let wide = Spec::new(DType::F64, [1500]);
        all.push(Sample::new(Self { spec: wide, low: -2.0, high: 5.0, stream: 1 }, vec![at.clone()]));
        let whole = Spec::new(DType::I32, [3]);
        all.push(Sample::bad(Self { spec: whole, ..*self }, vec![at.clone()], "it must be that of a float"));
        all.push(Sample::bad(Self { high: f64::NAN, ..*self }, vec![at], "high is NaN; it must be finite"));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::with(Some(DType::I32), [8], Data::Int(0, 3))],
            "it must be i64",
        ));
        all
    }
}

fn uniform<T: Element>(op: &Uniform, words: Words, call: &Call<'_>) -> Result<(), Rule> {
    let wide = T::DTYPE == DType::F64;
    generate(call, call.output::<T>(0)?, |first, values| {
        let mut drawn = [0; 2 * TILE];
        if wide {
            let drawn = &mut drawn[..2 * values.len()];
            words.fill(2 * first as u64, drawn);
            for (v, w) in values.iter_mut().zip(drawn.chunks_exact(2)) {
                *v = T::from_f64(op.value(rng::uniform_f64(w[0], w[1])));
            }
        } else {
            let drawn = &mut drawn[..values.len()];
            words.fill(first as u64, drawn);
            for (v, &w) in values.iter_mut().zip(&*drawn) {
                *v = T::from_f64(op.value(f64::from(rng::uniform_f32(w))));
            }
        }
    });
    Ok(())
}

/// A cursor in the middle of a run.
pub(in crate::ops) fn sample_cursor() -> SampleArg {
    cursor::sample(&[(STEP, 12), (cursor::EPOCH, 1), (SEED, 0x5EED_1234), (MICRO, 5)])
}

op_attributes! {
    /// `out_i = 1` with probability `keep`, else 0, each on its own.
    ///
    /// Argument: `cursor` `i64[8]`. Result: bool of `shape`. Disjoint. No gradient. Deterministic: a comparison of integers,
    /// the same on every device. Errors: `keep` outside [0, 1]. Source: Salmon, Moraes, Dror and Shaw 2011.
    #[derive(Debug, Clone, Copy)]
    pub struct Bernoulli(cursor) {
        /// Shape of the result.
        pub shape: Shape = Shape::SCALAR => required,
        /// Probability of 1, as a multiple of 2⁻³².
        pub keep: f64 = 0.75 => required,
        /// Which numbers: ops with the same stream draw the same.
        pub stream: u32 = 0,
    }
}

impl Op for Bernoulli {
    fn name(&self) -> &'static str {
        "bernoulli"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 1] = rules::arity(self, args)?;
        cursor::rule(&args, 0)?;
        if !(0.0..=1.0).contains(&self.keep) {
            return Err(Rule::Attribute { name: "keep", value: self.keep, expected: "in [0, 1]" });
        }
        Ok(Outputs::one(Spec { dtype: DType::Bool, shape: self.shape }))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("random numbers depend on counters alone")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("bernoulli", |op, call| {
                    let op = attributes::<Bernoulli>(op)?;
                    let words = Words::new(&cursor::read(call, 0)?, op.stream);
                    let threshold = rng::threshold(op.keep);
                    generate(call, call.output::<u8>(0)?, |first, values| {
                        let mut drawn = [0; TILE];
                        let drawn = &mut drawn[..values.len()];
                        words.fill(first as u64, drawn);
                        for (v, &w) in values.iter_mut().zip(&*drawn) {
                            *v = u8::from(rng::keep(w, threshold));
                        }
                    });
                    Ok(())
                }),
                Kernel::cuda("bernoulli", cuda::bernoulli),
            ]
        }
    }
}

impl Tested for Bernoulli {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let words = Words::new(&cursor::of(&args[0]), self.stream);
        let limit = (self.keep * 2f64.powi(32)).round();
        let spec = Spec { dtype: DType::Bool, shape: self.shape };
        vec![HostTensor::from_fn(spec, |i| f64::from(u8::from(f64::from(words.get(i)) < limit)))]
    }
    fn samples(&self) -> Vec<Sample> {
        let at = sample_cursor();
        let shapes = SHAPES.iter().filter_map(|s| Shape::new(s));
        let mut all: Vec<Sample> =
            shapes.map(|shape| Sample::new(Self { shape, ..*self }, vec![at.clone()])).collect();
        for (keep, stream) in [(0.0, 0), (1.0, 3), (0.9, 3), (0.5, u32::MAX - 1)] {
            let shape = [3, 1111].into();
            all.push(Sample::new(Self { shape, keep, stream }, vec![at.clone()]));
        }
        all.push(Sample::bad(
            Self { keep: 1.5, ..*self },
            vec![at.clone()],
            "keep is 1.5; it must be in [0, 1]",
        ));
        all.push(Sample::bad(*self, vec![], "takes 1 argument (cursor), got 0"));
        all
    }
}
