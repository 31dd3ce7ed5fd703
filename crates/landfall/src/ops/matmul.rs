//! Matrix product.

use super::pointwise::cotangent;
use super::{Alias, Body, Cost, Coverage, Data, Grad, Kernel, Op, Outputs, Sample, SampleArg, rules};
use crate::device::DeviceKind;
use crate::error::{Error, Rule};
use crate::graph::{Graph, Value};
use crate::host::HostTensor;
use crate::shape::{Shape, Spec};
use crate::{DType, with_dtype};

/// `out[.., i, j] = Σ_p lhs[.., i, p] · rhs[.., p, j]`.
///
/// `lhs`: `[batch.., m, k]`, `rhs`: `[batch.., k, n]` of one float dtype and equal batch axes; result `[batch.., m, n]`.
/// Any strides: a transposed operand is a view. Accumulation in f32 (f64 for f64) in blocks over `k`. Disjoint.
/// Gradients: `cotangent · rhsᵀ` and `lhsᵀ · cotangent`. Deterministic, whatever the number of threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct MatMul;

/// Batch count, m, n and k of a product.
fn sizes(args: &[Spec]) -> (usize, usize, usize, usize) {
    let (l, r) = (args[0].shape.dims(), args[1].shape.dims());
    let (rank, [.., m, k]) = (l.len(), l) else { return (0, 0, 0, 0) };
    (l[..rank - 2].iter().product(), *m, r[rank - 1], *k)
}

/// `Σ` over the batch and rows of `lhsᵀ · rhs` where both can be seen as matrices, so that one product does it all.
fn product(g: &Graph, lhs: Value, rhs: Value, transpose: [bool; 2]) -> Result<Value, Error> {
    let lhs = if transpose[0] { g.transpose(lhs)? } else { lhs };
    let rhs = if transpose[1] { g.transpose(rhs)? } else { rhs };
    g.matmul(lhs, rhs)
}

impl Op for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(args)?;
        rules::float(&args, &[0])?;
        rules::same_dtype(&args, 0, 1)?;
        let rank = args[0].shape.rank();
        for (arg, spec) in args.iter().enumerate() {
            if spec.shape.rank() < 2 || spec.shape.rank() != rank {
                return Err(Rule::Rank {
                    arg,
                    rank: spec.shape.rank(),
                    expected: "at least 2, the same for both",
                });
            }
        }
        (0..rank - 2).try_for_each(|axis| rules::same_dim(&args, (0, axis), (1, axis)))?;
        rules::same_dim(&args, (0, rank - 1), (1, rank - 2))?;
        let shape = args[0].shape.with(rank - 1, args[1].shape.last());
        Ok(Outputs::one(Spec { shape, ..args[0] }))
    }
    fn alias(&self) -> &[Alias] {
        &[Alias::Disjoint]
    }
    fn coverage(&self) -> &[Coverage] {
        &[Coverage::Full]
    }
    fn accumulate(&self, dtype: DType) -> DType {
        dtype.accumulate()
    }
    fn body(&self) -> Body {
        Body::Primitive("product")
    }
    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let (g, c) = (cx.graph, cotangent(cx)?);
            let lhs = if cx.needs[0] { Some(product(g, c, cx.inputs[1], [false, true])?) } else { None };
            let rhs = if cx.needs[1] { Some(product(g, cx.inputs[0], c, [true, false])?) } else { None };
            Ok(vec![lhs, rhs])
        })
    }
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs = [args[0].spec, args[1].spec];
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let (_, m, n, k) = sizes(&specs);
        let at = |i: usize| {
            let (b, row, col) = (i / (m * n), i / n % m, i % n);
            (0..k).map(|p| args[0].data[(b * m + row) * k + p] * args[1].data[(b * k + p) * n + col]).sum()
        };
        vec![HostTensor::from_fn(outputs[0], at)]
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[Kernel::cpu("product", |_, call| {
                with_dtype!(float call.dtype(0)?, T => {
                    let (a, b, mut c) = (call.input::<T>(0)?, call.input::<T>(1)?, call.output::<T>(0)?);
                    let rank = a.dims().len();
                    let k = a.dims()[rank - 1];
                    let d = *c.layout().shape();
                    for i in 0..c.elements() {
                        let mut at = [0; 8];
                        let mut r = i;
                        for x in (0..rank).rev() { at[x] = r % d.dims()[x]; r /= d.dims()[x]; }
                        let col = at[rank - 1];
                        let mut s = 0.0;
                        for p in 0..k {
                            let mut l = at; l[rank - 1] = p;
                            let mut q = at; q[rank - 2] = p; q[rank - 1] = col;
                            s += crate::Element::to_f64(a.at(&l[..rank])) * crate::Element::to_f64(b.at(&q[..rank]));
                        }
                        c.set_flat(i, crate::Element::from_f64(s));
                    }
                    Ok(())
                }, else Err(Rule::Dtype { arg: 0, dtype: call.dtype(0)?, expected: "a float" }))
            })]
        }
    }
    fn cost(&self, args: &[Spec]) -> Cost {
        let (batch, m, n, k) = sizes(args);
        let flops = [2, batch, m, n, k].into_iter().fold(1, usize::saturating_mul);
        self.infer(args).map_or(Cost::default(), |o| Cost::of(args, &o, flops))
    }
    fn samples(&self) -> Vec<Sample> {
        let cases: &[(&[usize], &[usize])] = &[
            (&[3, 5], &[5, 4]),
            (&[1, 1], &[1, 1]),
            (&[7, 16], &[16, 16]),
            (&[2, 3, 4], &[2, 4, 5]),
            (&[2, 2, 9, 8], &[2, 2, 8, 9]),
            (&[0, 4], &[4, 3]),
            (&[4, 0], &[0, 3]),
            (&[3, 4], &[4, 0]),
            (&[70, 33], &[33, 65]),
            (&[16, 3000], &[3000, 16]),
            (&[300, 16], &[16, 128]),
        ];
        let shapes = cases.iter().filter_map(|&(l, r)| Some((Shape::new(l)?, Shape::new(r)?)));
        let mut all: Vec<Sample> =
            shapes.map(|(l, r)| Sample::new(*self, vec![SampleArg::any(l), SampleArg::any(r)])).collect();
        let bad =
            |l: Shape, r: Shape, text| Sample::bad(*self, vec![SampleArg::any(l), SampleArg::any(r)], text);
        all.push(bad(
            [4, 8].into(),
            [6, 5].into(),
            "arg 0 axis 1 is 8, arg 1 axis 0 is 6; they must be equal",
        ));
        all.push(bad([4].into(), [4].into(), "arg 0 has rank 1; it must be at least 2"));
        all.push(bad(
            [2, 4, 8].into(),
            [3, 8, 5].into(),
            "arg 0 axis 0 is 2, arg 1 axis 0 is 3; they must be equal",
        ));
        all.push(Sample::bad(
            *self,
            vec![SampleArg::with(Some(DType::I32), [2, 2], Data::Int(0, 3)), SampleArg::any([2, 2])],
            "it must be f32",
        ));
        all
    }
}
