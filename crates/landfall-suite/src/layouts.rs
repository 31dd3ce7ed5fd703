//! Where operands lie makes no difference to the bytes, and nothing outside of an output is touched.

use crate::case::{Case, Check, Failure, Which, each, ensure};
use crate::compare::{Worst, bound, close};
use crate::device::On;
use crate::launch::{Landing, Operands, POISON, reserve, run, same};
use crate::place::Place;
use landfall::ops::{Data, Tested};
use landfall::{Engine, HostTensor};

/// Ops whose order of additions on a GPU depends on how operands lie: the matrix library's choice of an algorithm does, and
/// so does whether tensor cores take them.
const ORDERED_BY_LAYOUT: &[&str] = &["matmul", "grouped_matmul", "grouped_matmul_grad"];

/// Inputs and outputs permuted, sliced and broadcast give the bytes of contiguous ones, or what is as close to the
/// reference where the order of additions depends on the layout.
pub(crate) fn layouts(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    let same: Same = if on == On::Cuda && ORDERED_BY_LAYOUT.contains(&op.name()) { near } else { same };
    each(op, Which::Light, |case| {
        let want = run(&engine, case, &[], Place::Whole)?;
        let n = case.inputs.len();
        for place in [Place::Permuted, Place::Sliced, Place::Guarded] {
            let got = run(&engine, case, &vec![place; n], Place::Whole)?;
            same(case, &format!("inputs {place:?}"), &got, &want)?;
            let got = run(&engine, case, &[], place)?;
            same(case, &format!("outputs {place:?}"), &got, &want)?;
        }
        let got = run(&engine, case, &vec![Place::Sliced; n], Place::Permuted)?;
        same(case, "inputs sliced, outputs permuted", &got, &want)?;
        // Alternating, so that no two operands walk alike.
        let mixed: Vec<Place> =
            (0..n).map(|i| if i % 2 == 0 { Place::Permuted } else { Place::Sliced }).collect();
        let got = run(&engine, case, &mixed, Place::Sliced)?;
        same(case, "inputs mixed, outputs sliced", &got, &want)?;
        (0..n).filter(|&i| !case.updates(i)).try_for_each(|i| broadcast(&engine, case, i, same))
    })
}

/// Compares results with those on contiguous operands.
type Same = fn(&Case, &str, &[Vec<u8>], &[Vec<u8>]) -> Check;

/// Results within the op's tolerance of the reference, wherever the operands lie.
fn near(case: &Case, what: &str, got: &[Vec<u8>], _: &[Vec<u8>]) -> Check {
    let got: Vec<HostTensor> = case
        .outputs
        .iter()
        .zip(got)
        .map(|(&spec, bytes)| HostTensor::from_bytes(spec, bytes))
        .collect::<Result<_, _>>()?;
    let checked = close(case, &got, &case.reference()?, bound, &mut Worst::new());
    checked.map_err(|Failure(why)| Failure(format!("{what}: {why}")))
}

/// Input `i` stored once along an axis, with its data made constant along it where the sample leaves that open.
fn broadcast(engine: &Engine, case: &Case, i: usize, same: Same) -> Check {
    let free = !matches!(case.args[i].data, Data::Exact(_));
    let dims = case.inputs[i].dims().to_vec();
    for axis in 0..dims.len() {
        if dims[axis] < 2 || case.inputs[i].data.is_empty() {
            continue;
        }
        let inner: usize = dims[axis + 1..].iter().product();
        let flat = |k: usize| k - k / inner % dims[axis] * inner;
        let whole = &case.inputs[i];
        let constant = HostTensor::from_fn(whole.spec, |k| whole.data[flat(k)]);
        if !free && constant != *whole {
            continue;
        }
        let mut inputs = case.inputs.clone();
        inputs[i] = constant;
        let case = case.with_inputs(inputs);
        let want = run(engine, &case, &[], Place::Whole)?;
        let mut places = vec![Place::Whole; case.inputs.len()];
        places[i] = Place::Broadcast(axis);
        let got = run(engine, &case, &places, Place::Whole)?;
        same(&case, &format!("input {i} broadcast along axis {axis}"), &got, &want)?;
    }
    Ok(())
}

/// Every byte of an output is written, whatever was there before.
pub(crate) fn poison(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    each(op, Which::Light, |case| {
        reserve(&engine, case)?;
        let mut results = Vec::new();
        for byte in [POISON, 0x55] {
            let mut operands = Operands::new(&engine, case, &[], Place::Whole, byte)?;
            operands.call(&engine, case)?;
            results.push(operands.results()?);
        }
        same(case, "memory that held other bytes before", &results[1], &results[0])?;
        for (j, (want, got)) in case.reference()?.iter().zip(&results[0]).enumerate() {
            let got = HostTensor::from_bytes(want.spec, got)?;
            let left = want.data.iter().zip(&got.data).position(|(w, g)| w.is_finite() && g.is_nan());
            ensure!(left.is_none(), "output {j} element {left:?} was not written");
        }
        Ok(())
    })
}

/// Bytes round an output are intact, and so are the inputs.
pub(crate) fn guards(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    each(op, Which::Light, |case| {
        reserve(&engine, case)?;
        for place in [Place::Guarded, Place::Sliced, Place::Permuted] {
            let inputs = vec![place; case.inputs.len()];
            let mut operands = Operands::new(&engine, case, &inputs, place, 0xA5)?;
            let before: Vec<Vec<u8>> =
                operands.inputs.iter().map(|p| p.memory()).collect::<Result<_, _>>()?;
            operands.call(&engine, case)?;
            for (j, landing) in operands.outputs.iter().enumerate() {
                let hit = operands.output(j).trespass(0xA5)?;
                ensure!(
                    hit.is_none(),
                    "output {j} ({landing:?}) {place:?}: the byte {hit:?} outside of it changed"
                );
            }
            for (i, (placed, before)) in operands.inputs.iter().zip(&before).enumerate() {
                let target = operands.outputs.iter().any(|o| matches!(o, Landing::Input(t) if *t == i));
                ensure!(target || placed.memory()? == *before, "input {i} was written");
            }
        }
        Ok(())
    })
}

/// How often a call is made on the same operands: a GPU keeps what came twice, and makes it again from then on.
const CALLS: usize = 4;

/// The same bytes again: on other memory, on the same memory, and on the processor with any number of threads.
pub(crate) fn deterministic(on: On, op: &dyn Tested) -> Check {
    let one = on.engine()?;
    let others = match on {
        On::Cpu => vec![Engine::cpu_with_threads(2)?, Engine::cpu_with_threads(3)?],
        On::Cuda => Vec::new(),
    };
    each(op, Which::Light, |case| {
        let want = run(&one, case, &[], Place::Whole)?;
        same(case, "repeated", &run(&one, case, &[], Place::Whole)?, &want)?;
        for (input, output) in [(Place::Whole, Place::Whole), (Place::Permuted, Place::Sliced)] {
            let mut operands = Operands::new(&one, case, &vec![input; case.inputs.len()], output, POISON)?;
            let memory = operands.memory()?;
            let mut first = None;
            for call in 1..=CALLS {
                operands.restore(&memory)?;
                operands.call(&one, case)?;
                let (got, want) = (operands.results()?, &*first.get_or_insert(operands.results()?));
                same(case, &format!("call {call} on the same operands"), &got, want)?;
            }
        }
        for (engine, threads) in others.iter().zip(2..) {
            let got = run(engine, case, &[], Place::Whole)?;
            same(case, &format!("{threads} threads"), &got, &want)?;
        }
        Ok(())
    })
}
