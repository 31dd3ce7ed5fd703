//! What is refused, and with which words; and the null device, which refuses and accepts the same.

use crate::case::{Case, Check, Failure, Which, cases, data, each, ensure, specs};
use crate::device::On;
use crate::launch::{Operands, POISON, reserve};
use crate::place::{Place, Placed};
use landfall::ops::{Sample, Tested};
use landfall::{DType, Engine, Error, Graph, Spec, StateSpec, TensorRef};
use std::sync::Arc;

/// A dtype that the op takes, f32 if it can.
fn dtype(op: &dyn Tested) -> Check<DType> {
    let taken: Vec<DType> = cases(op)?.iter().map(|c| c.dtype).collect();
    Ok(if taken.contains(&DType::F32) { DType::F32 } else { taken.first().copied().unwrap_or(DType::F32) })
}

/// The error text of a call with outputs of these specs.
fn error(
    engine: &Engine,
    op: &dyn Tested,
    inputs: &[TensorRef<'_>],
    outputs: &[Spec],
) -> Check<Option<String>> {
    let mut owned: Vec<Placed> =
        outputs.iter().map(|&s| Placed::empty(engine, s, Place::Whole, POISON)).collect::<Result<_, _>>()?;
    let mut views = Vec::new();
    for o in &mut owned {
        views.push(o.view_mut()?);
    }
    Ok(engine.call(op, inputs, &mut views).err().map(|e| e.to_string()))
}

/// A refused sample's text, eagerly and in a graph.
fn sample(engine: &Engine, sample: &Sample, index: usize, dtype: DType) -> Check {
    let Some(text) = sample.refused else { return Ok(()) };
    let (op, specs) = (sample.op.as_ref(), specs(&sample.args, dtype));
    let inputs: Vec<Placed> = data(sample, index, &specs)
        .iter()
        .map(|h| Placed::new(engine, h, Place::Whole, POISON))
        .collect::<Result<_, _>>()?;
    let views: Vec<TensorRef<'_>> = inputs.iter().map(Placed::view).collect::<Result<_, _>>()?;
    let outputs = vec![Spec::new(dtype, [1]); op.outputs().len()];
    let start = format!("{}(", op.name());
    let Some(told) = error(engine, op, &views, &outputs)? else {
        return Err("the call was not refused".to_owned().into());
    };
    ensure!(told.contains(text) && told.starts_with(&start), "the error is {told:?}, not {start}.. {text:?}");
    let graph = Graph::new(&Arc::new(StateSpec::new()));
    let args = specs.iter().enumerate();
    let values: Vec<_> = args.map(|(i, s)| graph.input(&format!("input{i}"), s.dtype, s.shape)).collect();
    let (line, built) = (line!(), graph.op_dyn(sample.op.clone(), &values));
    let Err(told) = built.map_err(|e| e.to_string()) else {
        return Err("the graph did not refuse it".to_owned().into());
    };
    let place = format!("({}:{line})", file!());
    ensure!(
        told.starts_with(&start) && told.contains(text) && told.contains(&place),
        "in a graph the error is {told:?}, not {start}.. {text:?} {place}"
    );
    Ok(())
}

fn refused_samples(engine: &Engine, op: &dyn Tested) -> Check {
    let dtype = dtype(op)?;
    for (index, s) in op.samples().iter().enumerate() {
        let told = sample(engine, s, index, dtype);
        told.map_err(|Failure(why)| Failure(format!("{} sample {index} {:?}: {why}", op.name(), s.op)))?;
    }
    Ok(())
}

/// Each destination of another dtype or shape, one too many and one too few.
fn destinations(engine: &Engine, case: &Case) -> Check {
    reserve(engine, case)?;
    let operands = Operands::whole(engine, case)?;
    let inputs: Vec<TensorRef<'_>> = operands.inputs.iter().map(Placed::view).collect::<Result<_, _>>()?;
    let start = format!("{}(", case.op.name());
    let wrong = |given: &[Spec], words: &[String]| -> Check {
        let Some(told) = error(engine, case.op.as_ref(), &inputs, given)? else {
            return Err(format!("outputs {given:?} were not refused").into());
        };
        let said = told.starts_with(&start) && words.iter().all(|w| told.contains(w));
        ensure!(said, "outputs {given:?}: the error is {told:?}, which does not say {words:?}");
        Ok(())
    };
    let n = case.outputs.len();
    for (j, &expected) in case.outputs.iter().enumerate() {
        let other = if expected.dtype == DType::F32 { DType::F64 } else { DType::F32 };
        let mut given = vec![Spec { dtype: other, ..expected }];
        given.extend((0..expected.shape.rank()).map(|axis| {
            let size = expected.shape.dims()[axis] + 1;
            Spec { shape: expected.shape.with(axis, size), ..expected }
        }));
        given.push(Spec::new(expected.dtype, [expected.shape.elements(), 1, 1, 1, 1, 1, 1]));
        for given in given.into_iter().filter(|&g| g != expected) {
            let mut outputs = case.outputs.clone();
            outputs[j] = given;
            wrong(&outputs, &[format!("output {j} must be {expected}"), format!("given is {given}")])?;
        }
    }
    let counts = |got: usize| vec![format!("writes {n} outputs, got {got}")];
    wrong(&case.outputs[1..], &counts(n - 1))?;
    if n < landfall::ops::MAX_OUTPUTS {
        let mut more = case.outputs.clone();
        more.push(Spec::new(DType::F32, [1]));
        wrong(&more, &counts(n + 1))?;
    }
    Ok(())
}

/// Refused samples, and refused destinations of good ones.
pub(crate) fn refused(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    refused_samples(&engine, op)?;
    let any = op.samples().iter().any(|s| s.refused.is_some());
    ensure!(any, "{} has no refused sample", op.name());
    each(op, Which::Light, |case| destinations(&engine, case))
}

/// The null device accepts, refuses and counts what the processor does, and has no results to read.
pub(crate) fn null(op: &dyn Tested) -> Check {
    let engine = Engine::null();
    refused_samples(&engine, op)?;
    each(op, Which::Light, |case| {
        let mut operands = Operands::whole(&engine, case)?;
        reserve(&engine, case)?;
        let before = engine.counters().launches;
        operands.call(&engine, case)?;
        let launches = engine.counters().launches - before;
        ensure!(launches == 1, "{launches} launches were counted");
        for j in 0..case.outputs.len() {
            let read = operands.output(j).tensor.read_host();
            ensure!(matches!(read, Err(Error::NoResult { .. })), "output {j} was read as {read:?}");
        }
        destinations(&engine, case)
    })
}
