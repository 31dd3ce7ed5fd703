//! Every op under the sanitizer: eager calls and programs, under each of its allocators.

use crate::case::{Check, cases, ensure, few};
use crate::device::On;
use crate::launch::{run, same};
use crate::place::Place;
use crate::programs::{graph_of, load, outputs};
use landfall::ops::Tested;
use landfall::sanitize::agree;
use landfall::{Graph, Program, Value};

/// The sanitizer finds nothing, and each allocator gives the bytes that an engine without it gives.
pub(crate) fn sanitized(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    let kept = few(cases(op)?)?;
    let small: Vec<_> = kept.iter().filter(|c| !c.large()).collect();
    for case in if small.is_empty() { kept.iter().take(1).collect() } else { small } {
        let want = run(&engine, case, &[], Place::Whole)?;
        let eager =
            |places: &[Place], output: Place| agree(&engine, |engine| run(engine, case, places, output));
        same(case, "eager", &eager(&[], Place::Whole)?, &want)?;
        let sliced = vec![Place::Sliced; case.inputs.len()];
        let strided = run(&engine, case, &sliced, Place::Permuted)?;
        same(case, "strided", &eager(&sliced, Place::Permuted)?, &strided)?;
        let program = |engine: &landfall::Engine| -> Check<Vec<Vec<u8>>> {
            let build = |g: &Graph, values: &[Value]| g.op_dyn(case.op.clone(), values);
            let (graph, mut state) = graph_of(engine, case, true, build)?;
            let mut program = Program::compile(engine, &state, "sanitized", &graph)?;
            load(case, &mut program, &mut state)?;
            program.run(&mut state)?;
            outputs(case, &program)
        };
        let replayed = agree(&engine, program)?;
        ensure!(replayed == program(&engine)?, "{case}: the sanitized program gives other bytes");
    }
    Ok(())
}
