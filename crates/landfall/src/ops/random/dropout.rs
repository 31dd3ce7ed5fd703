//! Dropout: the mask is made of counters in the kernel, forward and backward, and never stored.

use crate::contract::cursor;
use crate::contract::{
    Body, Data, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, attributes,
    op_attributes, rules,
};
use crate::kernel::cpu::{Call, isa, with_float};
use crate::kernel::cuda::pointwise;
use crate::ops::elementwise::pointwise::SHAPES;
use crate::ops::random::distributions::{AHEAD, Bernoulli, GRAIN, TILE, Words, sample_cursor};
use crate::rng;
use crate::values::{
    DType, DeviceKind, Element, Expression, HostTensor, Math, Reg, Rule, Shape, Spec, Step, collapse,
};

op_list! { Dropout }

op_attributes! {
    /// `out_i = x_i / (1 − rate)` with probability `1 − rate`, else 0.
    ///
    /// Arguments: `x` of any shape, float; `cursor` `i64[8]`. Result: as `x`. The mask is [`Bernoulli`]'s of the same stream at
    /// the same step. Arithmetic in the accumulation dtype, rounded once. In place on `x`. Gradient: the same op on the
    /// cotangent, which draws the same mask again. Deterministic. Errors: `rate` outside [0, 1). Source: Srivastava,
    /// Hinton, Krizhevsky, Sutskever and Salakhutdinov 2014.
    #[derive(Debug, Clone, Copy)]
    pub struct Dropout(x, cursor) {
        /// Probability of 0.
        pub rate: f64 = 0.5,
        /// Which numbers: ops with the same stream draw the same.
        pub stream: u32 = 0,
    }
}

impl Dropout {
    /// Writes the op on one element; nothing where no word is kept.
    pub(crate) fn write(&self, e: &mut Expression, x: Reg) -> Option<Reg> {
        let keep = 1.0 - self.rate;
        // As `rng::keep`, in 32 bits.
        let last = u32::try_from(rng::threshold(keep).checked_sub(1)?).ok()?;
        let kept = e.push(Step::Kept { stream: self.stream, last });
        let scaled = e.scale(x, 1.0 / keep);
        let zero = e.constant(0.0);
        Some(e.push(Step::Select(kept, scaled, zero)))
    }
}

impl Op for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        rules::float(&args, &[0])?;
        cursor::rule(&args, 1)?;
        if !(0.0..1.0).contains(&self.rate) {
            return Err(Rule::Attribute { name: "rate", value: self.rate, expected: "in [0, 1)" });
        }
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }
    fn body(&self) -> Body {
        Body::Fused(|op, g, args| {
            let op = attributes::<Self>(op).map_err(|r| r.of("dropout", &[], None, None))?;
            let Spec { dtype, shape } = g.spec(args[0]);
            let keep = 1.0 - op.rate;
            let mask = g.op1(Bernoulli { shape, keep, stream: op.stream }, &[args[1]])?;
            let scaled = g.affine(args[0], 1.0 / keep, 0.0)?;
            let zero = g.fill(dtype, shape, 0.0)?;
            Ok(vec![g.select(mask, scaled, zero)?])
        })
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|op, cx| {
            let op = attributes::<Self>(op).map_err(|r| r.of("dropout", &[], None, None))?;
            Ok(vec![Some(cx.graph.op1(*op, &[cx.cotangent()?, cx.inputs[1]])?), None])
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::BetweenProducts { operands: usize::MAX }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("dropout", |op, call| {
                    let op = attributes::<Dropout>(op)?;
                    with_float!(call, 0, T => dropout::<T>(op, call))
                }),
                Kernel::cuda("dropout", |op, call| {
                    let op = attributes::<Dropout>(op)?;
                    pointwise::run_random(
                        |e| {
                            let x = e.arg(0);
                            // Without a word that is kept nothing is.
                            op.write(e, x).unwrap_or_else(|| e.constant(0.0))
                        },
                        call,
                    )
                }),
            ]
        }
    }
    fn flops(&self, _: &[Spec], outputs: &[Spec]) -> usize {
        outputs[0].shape.elements()
    }
}

impl Tested for Dropout {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let words = Words::new(&cursor::of(&args[1]), self.stream);
        let limit = ((1.0 - self.rate) * 2f64.powi(32)).round();
        vec![HostTensor::from_fn(args[0].spec, |i| {
            if f64::from(words.get(i)) < limit { args[0].data[i] / (1.0 - self.rate) } else { 0.0 }
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let on = |op: Self, shape: Shape| Sample::new(op, vec![SampleArg::any(shape), sample_cursor()]);
        let quarter = Self { rate: 0.25, stream: 1 };
        let mut all: Vec<Sample> =
            SHAPES.iter().filter_map(|s| Shape::new(s)).map(|s| on(quarter, s)).collect();
        for rate in [0.0, 0.1, 0.5, 0.999] {
            all.push(on(Self { rate, stream: 4 }, [3, 1111].into()));
        }
        all.push(on(quarter, [40_001].into()));
        let bad = |rate, text| {
            Sample::bad(Self { rate, ..*self }, vec![SampleArg::any([3]), sample_cursor()], text)
        };
        all.push(bad(1.0, "rate is 1; it must be in [0, 1)"));
        all.push(bad(f64::NAN, "rate is NaN; it must be in [0, 1)"));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5)), sample_cursor()],
            "it must be f32, f64, bf16 or f16",
        ));
        all
    }
}

fn dropout<T: Element<Acc: Math>>(op: &Dropout, call: &Call<'_>) -> Result<(), Rule> {
    let words = Words::new(&cursor::read(call, 1)?, op.stream);
    let (x, mut out) = (call.input_or_in_place::<T>(0)?, call.output::<T>(0)?);
    let keep = 1.0 - op.rate;
    // A word is kept if it is at most this: the same as `rng::keep`, in 32 bits, so that a lane compares a word.
    let Some(last) = rng::threshold(keep).checked_sub(1).map(|t| t as u32) else {
        out.fill(T::from_f64(0.0));
        return Ok(());
    };
    let (scale, zero) = (T::Acc::from_f64(1.0 / keep), T::Acc::default());
    if out.elements() == 0 {
        return Ok(());
    }
    let mut layouts = [*out.layout(), x.as_ref().map_or(*out.layout(), |x| *x.layout())];
    collapse(&mut layouts);
    let (out, x) = (out.relaid(layouts[0]), x.map(|x| x.with_layout(layouts[1])));
    let outer = out.outer();
    let each = out.elements() / outer;
    call.parallel(
        out,
        outer,
        (GRAIN / each).max(1),
        #[inline(always)]
        |start, mut part| {
            let (mut drawn, mut values) = ([0; TILE], [zero; TILE]);
            // A copy of what is captured: read through a reference, each lane would gather its choice from memory.
            let (last, scale, zero) = (last, scale, zero);
            let chosen = |x: T::Acc, word: u32| if word <= last { x * scale } else { zero };
            let (rows, cols) = (part.rows(), part.cols());
            // With one axis, the part is a piece of the only row.
            let (row_from, col_from) =
                if part.dims().len() <= 1 { (0, start) } else { (start * (rows / part.outer()), 0) };
            for r in 0..rows {
                let mut row = part.row_mut(r);
                let from = x.as_ref().map(|x| x.row(row_from + r));
                for col in (0..cols).step_by(TILE) {
                    let len = TILE.min(cols - col);
                    if last < u32::MAX {
                        words.fill((start * each + r * cols + col) as u64, &mut drawn[..len]);
                    }
                    let contiguous = from.as_ref().map_or(Some(None), |f| f.as_slice().map(Some));
                    if let (Some(from), Some(to)) = (contiguous, row.as_slice()) {
                        isa::write_ahead(to, col + AHEAD, len);
                        let to = &mut to[col..col + len];
                        match from {
                            Some(from) => {
                                isa::read_ahead(from, col_from + col + AHEAD, len);
                                let from = &from[col_from + col..][..len];
                                for ((to, x), &word) in to.iter_mut().zip(from).zip(&drawn) {
                                    *to = T::narrow(chosen(x.widen(), word));
                                }
                            }
                            None => {
                                for (to, &word) in to.iter_mut().zip(&drawn) {
                                    *to = T::narrow(chosen(to.widen(), word));
                                }
                            }
                        }
                        continue;
                    }
                    match &from {
                        Some(from) => from.widen(col_from + col, &mut values[..len]),
                        None => row.read().widen(col, &mut values[..len]),
                    }
                    for (v, &word) in values.iter_mut().zip(&drawn) {
                        *v = chosen(*v, word);
                    }
                    row.narrow(col, &values[..len]);
                }
            }
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Error};

    #[test]
    fn the_share_of_kept_elements_is_as_asked_and_each_step_draws_anew() -> Result<(), Error> {
        let engine = Engine::cpu_with_threads(2)?;
        let n = 200_000;
        let x = engine.tensor([n], &vec![1.0f32; n])?;
        let mut masks = Vec::new();
        for step in [0i64, 1] {
            let cursor = engine.tensor([8], &[step, 0, 0, 99, 0, 0, 0, 0])?;
            let mut out = engine.empty(DType::F32, [n])?;
            let op = Dropout { rate: 0.2, stream: 3 };
            engine.call(&op, &[x.view(), cursor.view()], &mut [out.view_mut()])?;
            let kept = out.read::<f32>()?;
            assert!(kept.iter().all(|&y| y == 0.0 || y == 1.25));
            let share = kept.iter().filter(|&&y| y != 0.0).count() as f64 / n as f64;
            // Five standard deviations.
            assert!((share - 0.8).abs() < 5.0 * (0.16 / n as f64).sqrt(), "{share}");
            masks.push(kept);
        }
        let equal = masks[0].iter().zip(&masks[1]).filter(|(a, b)| a == b).count() as f64 / n as f64;
        assert!((equal - 0.68).abs() < 0.01, "masks of two steps agree on {equal}");
        Ok(())
    }
}
