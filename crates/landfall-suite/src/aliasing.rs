//! Each alias rule: what it allows gives the same bytes, what it does not is refused before anything changes.
//!
//! Views of one buffer that overlap in part cannot be passed to the engine at all (the borrow checker stops them);
//! `ops::check` has that test, on operands without memory.

use crate::case::{Case, Check, Which, each, ensure};
use crate::device::On;
use crate::launch::{Operands, POISON, reserve, run, same};
use crate::place::{Place, Placed};
use landfall::ops::{Alias, Tested};
use landfall::{Engine, Spec, TensorRef};

pub(crate) fn aliasing(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    each(op, Which::Light, |case| {
        let want = run(&engine, case, &[], Place::Whole)?;
        for (j, &output) in case.outputs.iter().enumerate().filter(|(_, o)| o.bytes() > 0) {
            for i in 0..case.inputs.len() {
                pair(&engine, case, (j, output), i, &want)?;
            }
        }
        together(&engine, case, &want)?;
        halves(&engine, case, &want)
    })
}

/// Output `j` in the memory of input `i`.
fn pair(engine: &Engine, case: &Case, (j, output): (usize, Spec), i: usize, want: &[Vec<u8>]) -> Check {
    let must = case.updated(j);
    if must == Some(i) {
        return refused(engine, case, &format!("update {j} in other memory"), |k| {
            if k == j { None } else { case.updated(k) }
        });
    }
    // Another dtype or shape is another rule's matter, and an input that is updated has its output.
    if case.inputs[i].spec != output || case.updates(i) {
        return Ok(());
    }
    let shared = |k| if k == j { Some(i) } else { case.updated(k) };
    let allowed = match case.alias(j) {
        Alias::Disjoint | Alias::Must(_) => false,
        Alias::InPlace(which) => which.contains(&i),
        Alias::Parts(_) => case.inputs[..i].iter().all(|h| h.data.is_empty()),
    };
    if !allowed {
        return refused(engine, case, &format!("output {j} in input {i}"), shared);
    }
    for place in [Place::Whole, Place::Permuted, Place::Sliced, Place::Guarded] {
        let mut operands = Operands::sharing(engine, case, &[], place, POISON, shared)?;
        operands.call(engine, case)?;
        let what = format!("output {j} in place of input {i}, {place:?}");
        same(case, &what, &operands.results()?, want)?;
        let hit = operands.output(j).trespass(POISON)?;
        ensure!(hit.is_none(), "{what}: the byte {hit:?} outside of it changed");
    }
    Ok(())
}

/// A call that must be refused with the op's name and must change nothing.
fn refused(engine: &Engine, case: &Case, what: &str, shared: impl Fn(usize) -> Option<usize>) -> Check {
    reserve(engine, case)?;
    let mut operands = Operands::sharing(engine, case, &[], Place::Whole, POISON, &shared)?;
    let memory = |operands: &Operands| -> Check<Vec<Vec<u8>>> {
        let outputs = (0..operands.outputs.len()).map(|j| operands.output(j));
        Ok(operands.inputs.iter().chain(outputs).map(Placed::memory).collect::<Result<_, _>>()?)
    };
    let before = memory(&operands)?;
    let error = match operands.call(engine, case) {
        Ok(()) => return Err(format!("{what} was not refused").into()),
        Err(e) => e.to_string(),
    };
    let named = error.starts_with(&format!("{}(", case.op.name())) && error.contains("the op allows");
    ensure!(named, "{what}: the error is {error:?}");
    ensure!(memory(&operands)? == before, "{what} was refused, but bytes changed");
    Ok(())
}

/// As many outputs in place at once as there are inputs for them.
fn together(engine: &Engine, case: &Case, want: &[Vec<u8>]) -> Check {
    let mut taken: Vec<Option<usize>> = (0..case.outputs.len()).map(|j| case.updated(j)).collect();
    for j in 0..taken.len() {
        if let Alias::InPlace(which) = case.alias(j) {
            let free = |i: &&usize| {
                !taken.contains(&Some(**i)) && case.inputs.get(**i).is_some_and(|h| h.spec == case.outputs[j])
            };
            taken[j] = which.iter().find(free).copied();
        }
    }
    let mut operands = Operands::sharing(engine, case, &[], Place::Whole, POISON, |j| taken[j])?;
    operands.call(engine, case)?;
    same(case, &format!("outputs in inputs {taken:?}"), &operands.results()?, want)
}

/// The first two outputs in the two halves of one tensor.
fn halves(engine: &Engine, case: &Case, want: &[Vec<u8>]) -> Check {
    let [first, second, ..] = case.outputs[..] else { return Ok(()) };
    let updates = (0..case.outputs.len()).any(|j| case.updated(j).is_some());
    if updates || first.dtype != second.dtype {
        return Ok(());
    }
    let operands = Operands::whole(engine, case)?;
    let inputs: Vec<TensorRef<'_>> = operands.inputs.iter().map(Placed::view).collect::<Result<_, _>>()?;
    let (low, high) = (first.shape.elements(), second.shape.elements());
    let mut both = engine.empty(first.dtype, [low + high])?;
    let mut others: Vec<Placed> = case.outputs[2..]
        .iter()
        .map(|&spec| Placed::empty(engine, spec, Place::Whole, POISON))
        .collect::<Result<_, _>>()?;
    {
        let (a, b) = both.view_mut().split_at_mut(low)?;
        let mut outputs = vec![a.reshape(first.shape)?, b.reshape(second.shape)?];
        for o in &mut others {
            outputs.push(o.view_mut()?);
        }
        engine.call(case.op.as_ref(), &inputs, &mut outputs)?;
    }
    let bytes = landfall::with_dtype!(any first.dtype, T => {
        bytemuck::cast_slice::<T, u8>(&both.read::<T>()?).to_vec()
    });
    let (a, b) = bytes.split_at(low * first.dtype.size());
    same(case, "outputs in one tensor", &[a.to_vec(), b.to_vec()], &want[..2])
}
