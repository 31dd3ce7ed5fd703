//! Indices out of range: what depends on one cannot be read in any way, until it is written again.

use crate::case::{Case, Check, Which, each, ensure};
use crate::device::On;
use crate::launch::{Operands, reserve};
use crate::programs::{graph_of, load};
use landfall::ops::{Copy, Tested};
use landfall::{DType, Engine, Error, Graph, HostTensor, Program, Value, View};

/// Far beyond every sample's sizes.
const BEYOND: f64 = 1_000_000.0;

/// The fault travels with the results of eager calls and of programs: through ops, programs, and to other libraries.
pub(crate) fn faults(on: On, op: &dyn Tested) -> Check {
    // A GPU of its own: a fault that was not read is reported by the next wait of anybody.
    let engine = match on {
        On::Cpu => on.engine()?,
        On::Cuda => Engine::cuda(0)?,
    };
    each(op, Which::Light, |case| {
        for broken in broken(case) {
            if eager(&engine, &broken)? {
                handed_out(&engine, &broken)?;
                program(&engine, case, &broken)?;
            }
        }
        Ok(())
    })
}

/// The case with each argument of integers in turn beyond all ranges. Those that are no indices take it.
fn broken(case: &Case) -> Vec<Case> {
    let integers =
        |i: &usize| matches!(case.args[*i].dtype, Some(DType::I32 | DType::I64)) && !case.updates(*i);
    let beyond = |i: usize| {
        let mut inputs = case.inputs.clone();
        inputs[i] = HostTensor::from_fn(inputs[i].spec, |_| BEYOND);
        case.with_inputs(inputs)
    };
    (0..case.inputs.len()).filter(integers).map(beyond).collect()
}

fn is_fault<T>(case: &Case, what: &str, result: Result<T, Error>) -> Check {
    match result {
        Err(Error::Index { op, .. }) if op == case.op.name() => Ok(()),
        Err(other) => Err(format!("{what} of an index out of range: {other}").into()),
        Ok(_) => Err(format!("{what} of an index out of range succeeds").into()),
    }
}

/// Whether an argument is of indices. If it is, no result can be read, nor what an op computes with one; anything else can.
fn eager(engine: &Engine, case: &Case) -> Check<bool> {
    let mut operands = Operands::whole(engine, case)?;
    reserve(engine, case)?;
    operands.call(engine, case)?;
    let outputs = 0..case.outputs.len();
    let first = outputs.clone().find(|&j| case.outputs[j].bytes() > 0);
    if first.is_none_or(|j| operands.output(j).bytes().is_ok()) {
        return Ok(false);
    }
    for j in outputs.filter(|&j| case.outputs[j].bytes() > 0) {
        is_fault(case, "a read", operands.output(j).bytes())?;
        let copied = engine.eval(&Copy, &[operands.output(j).view()?])?;
        is_fault(case, "a read of a copy", copied.read_host())?;
        let twice = engine.eval(&Copy, &[copied.view()])?;
        is_fault(case, "a read of its copy", twice.read_host())?;
    }
    for (i, placed) in operands.inputs.iter().enumerate().filter(|(i, _)| !case.updates(*i)) {
        ensure!(placed.bytes().is_ok(), "argument {i} cannot be read after a fault");
    }
    Ok(true)
}

/// A call that writes to memory which another library reads returns the fault itself.
fn handed_out(engine: &Engine, case: &Case) -> Check {
    let inputs: Vec<View> =
        case.inputs.iter().map(|host| engine.from_host(host).map(View::from)).collect::<Result<_, _>>()?;
    let mut outputs = Vec::new();
    for (j, spec) in case.outputs.iter().enumerate() {
        let own = || engine.empty(spec.dtype, spec.shape).map(View::from);
        outputs.push(case.updated(j).map_or_else(own, |i| Ok(inputs[i].clone()))?);
        outputs[j].hand_out()?;
    }
    let (ins, outs) = (inputs.iter().collect::<Vec<_>>(), outputs.iter().collect::<Vec<_>>());
    is_fault(
        case,
        "a call into memory that was handed out",
        engine.call_views(case.op.as_ref(), &ins, &outs),
    )?;
    outputs
        .iter()
        .filter(|o| o.spec().bytes() > 0)
        .try_for_each(|o| is_fault(case, "handing out", o.hand_out()))
}

/// A program's outputs, and copies of them, until the next sound run.
fn program(engine: &Engine, sound: &Case, broken: &Case) -> Check {
    let build = |g: &Graph, values: &[Value]| {
        let results = g.op_dyn(broken.op.clone(), values)?;
        let copies = results.iter().map(|&v| g.op1(Copy, &[v])).collect::<Result<Vec<_>, _>>()?;
        Ok([results, copies].concat())
    };
    let (graph, mut state) = graph_of(engine, broken, false, build)?;
    let mut program = Program::compile(engine, &state, "faults", &graph)?;
    let outputs =
        (0..2 * broken.outputs.len()).filter(|j| broken.outputs[j % broken.outputs.len()].bytes() > 0);
    let names: Vec<String> = outputs.map(|j| format!("output{j}")).collect();
    load(broken, &mut program, &mut state)?;
    program.run(&mut state)?;
    for name in &names {
        is_fault(broken, "a read of a program's output", program.read_host(name))?;
        // One that lies in a state has no memory of its own.
        if let Ok(view) = program.view(name.as_str()) {
            let copied = engine.eval_views(&Copy, &[&view])?;
            is_fault(broken, "a read of a copy of a program's output", copied[0].read_host())?;
        }
    }
    load(sound, &mut program, &mut state)?;
    program.run(&mut state)?;
    for name in &names {
        program.read_host(name)?;
    }
    Ok(())
}
