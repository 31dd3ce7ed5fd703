//! Parts of a call: along the axes that an op calls independent a call on some of what they count gives what the whole call gives
//! for it.

use crate::case::{Case, Check, Failure, Which, each, ensure};
use crate::compare::{Worst, bound, close};
use crate::device::On;
use landfall::ops::{Op, Tested};
use landfall::{HostTensor, Shape, Spec, Tensor, TensorRef};
use std::sync::Arc;

/// Parts into which a call is cut, where its sizes allow it.
const PARTS: [usize; 3] = [2, 3, 5];

pub(crate) fn parts(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    each(op, Which::Light, |case| {
        let Some(axes) = case.op.independent(&case.specs(), &case.outputs) else { return Ok(()) };
        let specs: Vec<Spec> = case.specs().into_iter().chain(case.outputs.iter().copied()).collect();
        ensure!(axes.len() == specs.len(), "{} numbers of axes for {} operands", axes.len(), specs.len());
        let count = |(spec, &axes): (&Spec, &usize)| spec.shape.dims()[..axes].iter().product::<usize>();
        let counts: Vec<usize> = specs.iter().zip(&axes).filter(|(_, a)| **a > 0).map(count).collect();
        if counts.is_empty() {
            return Ok(()); // nothing to cut
        }
        let want = case.reference()?;
        for parts in PARTS.into_iter().filter(|&p| counts.iter().all(|&c| c > 0 && c.is_multiple_of(p))) {
            for part in [0, parts - 1] {
                let (of_inputs, of_outputs) = axes.split_at(case.inputs.len());
                let cut = |all: &[HostTensor], axes: &[usize]| -> Vec<HostTensor> {
                    all.iter().zip(axes).map(|(whole, &axes)| part_of(whole, axes, part, parts)).collect()
                };
                let (inputs, want) = (cut(&case.inputs, of_inputs), cut(&want, of_outputs));
                let outputs: Vec<Spec> = want.iter().map(|w| w.spec).collect();
                let case = Case { inputs, outputs, ..case.clone() };
                let own: Arc<dyn Op> = match case.op.of_part(parts) {
                    Some(own) => own,
                    None => case.op.clone(),
                };
                let given: Vec<Tensor> =
                    case.inputs.iter().map(|h| engine.from_host(h)).collect::<Result<_, _>>()?;
                let views: Vec<TensorRef<'_>> = given.iter().map(Tensor::view).collect();
                let got: Vec<HostTensor> = engine
                    .eval_all(own.as_ref(), &views)?
                    .iter()
                    .map(Tensor::read_host)
                    .collect::<Result<_, _>>()?;
                let checked = close(&case, &got, &want, bound, &mut Worst::new());
                checked.map_err(|Failure(why)| Failure(format!("part {part} of {parts}: {why}")))?;
            }
        }
        Ok(())
    })
}

/// A part of a tensor along its first axes, all of it where there are none.
fn part_of(whole: &HostTensor, axes: usize, part: usize, parts: usize) -> HostTensor {
    let dims = whole.spec.shape.dims();
    if axes == 0 {
        return whole.clone();
    }
    let count: usize = dims[..axes].iter().product();
    let mut shape = vec![1; axes - 1];
    shape.push(count / parts);
    shape.extend(&dims[axes..]);
    let spec = Spec { shape: Shape::new(&shape).unwrap_or(whole.spec.shape), ..whole.spec };
    let first = part * spec.shape.elements();
    HostTensor::from_fn(spec, |i| whole.data[first + i])
}
