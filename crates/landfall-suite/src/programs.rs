//! Programs of one op: recorded, issued and eager calls give the same bytes.

use crate::case::{Case, Check, Which, each};
use crate::device::On;
use crate::launch::{run, same};
use crate::place::Place;
use landfall::ops::Tested;
use landfall::{Engine, Error, Graph, HostTensor, Program, State, StateSpec, Value, with_dtype};
use std::sync::Arc;

/// A graph of `build` on the case's arguments: inputs of the program, or entries of its state where they are updated.
/// `copied` puts a copy before each that is not updated, so that the plan has memory to use again.
pub(crate) fn graph_of(
    engine: &Engine,
    case: &Case,
    copied: bool,
    build: impl Fn(&Graph, &[Value]) -> Result<Vec<Value>, Error>,
) -> Check<(Graph, State)> {
    let mut spec = StateSpec::new();
    for (i, host) in case.inputs.iter().enumerate().filter(|(i, _)| case.updates(*i)) {
        spec.add(&format!("slab{i}"), host.spec.dtype, &[(format!("input{i}"), host.spec.shape)])?;
    }
    let spec = Arc::new(spec);
    let graph = Graph::new(&spec);
    let mut values = Vec::new();
    for (i, host) in case.inputs.iter().enumerate() {
        let name = format!("input{i}");
        values.push(if case.updates(i) {
            graph.entry(&name)?
        } else if copied {
            graph.copy(graph.input(&name, host.spec.dtype, host.spec.shape))?
        } else {
            graph.input(&name, host.spec.dtype, host.spec.shape)
        });
    }
    for (j, v) in build(&graph, &values)?.into_iter().enumerate() {
        graph.output(&format!("output{j}"), v);
    }
    Ok((graph, State::new(engine, &spec)?))
}

/// Writes a program's input.
pub(crate) fn write(program: &mut Program, name: &str, host: &HostTensor) -> Result<(), Error> {
    with_dtype!(any host.spec.dtype, T => {
        program.write::<T>(name, &crate::place::elements::<T>(&host.to_bytes()))
    })
}

/// Writes the arguments of a case.
pub(crate) fn load(case: &Case, program: &mut Program, state: &mut State) -> Check {
    for (i, host) in case.inputs.iter().enumerate() {
        let name = format!("input{i}");
        if case.updates(i) {
            state.write_host(&name, host)?;
        } else {
            write(program, &name, host)?;
        }
    }
    Ok(())
}

/// Bytes of every output.
pub(crate) fn outputs(case: &Case, program: &Program) -> Check<Vec<Vec<u8>>> {
    let read = |j| program.read_host(&format!("output{j}")).map(|h| h.to_bytes());
    Ok((0..case.outputs.len()).map(read).collect::<Result<_, _>>()?)
}

/// Recorded = issued = eager, again when repeated, and where the plan reuses the memory of copied arguments (in
/// place where the alias rule allows it, a packing's parts where they land).
pub(crate) fn recorded(on: On, op: &dyn Tested) -> Check {
    // A segment has a kernel of its own for small products of 16 bits; what it gives is compared with its instructions by `parts`.
    let engine = on.engine()?.with_segments(false);
    each(op, Which::Light, |case| {
        let eager = run(&engine, case, &[], Place::Whole)?;
        // Programs are read through f64, so the one NaN that it knows stands for all.
        let specs = case.outputs.iter().zip(&eager);
        let eager: Vec<Vec<u8>> = specs
            .map(|(&spec, bytes)| Ok(HostTensor::from_bytes(spec, bytes)?.to_bytes()))
            .collect::<Result<_, landfall::OpError>>()?;
        for copied in [false, true] {
            let build = |g: &Graph, values: &[Value]| g.op_dyn(case.op.clone(), values);
            let (graph, mut state) = graph_of(&engine, case, copied, build)?;
            let mut program = Program::compile(&engine, &state, "recorded", &graph)?;
            for again in ["run", "issued", "run again"] {
                load(case, &mut program, &mut state)?;
                match again {
                    "issued" => program.issue(&mut state)?,
                    _ => program.run(&mut state)?,
                }
                same(case, again, &outputs(case, &program)?, &eager)?;
                for (j, want) in eager.iter().enumerate() {
                    let Some(i) = case.updated(j) else { continue };
                    let state = state.read_host(&format!("input{i}"))?.to_bytes();
                    crate::case::ensure!(state == *want, "{again}: the state does not hold update {j}");
                }
            }
        }
        Ok(())
    })
}
