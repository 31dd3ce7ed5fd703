//! A program needs nothing of the host: all cases of an op in one recording, replayed.

use crate::case::{Case, Check, Which, each, ensure};
use crate::device::On;
use crate::device::heap::COUNTER;
use crate::launch::same;
use landfall::ops::Tested;
use landfall::{DType, Engine, Graph, Program, State, StateSpec, with_dtype};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Two replays of a program of all cases in a dtype copy nothing to or from the host, allocate nothing, neither on the
/// device nor on the heap, and give the bytes of issued instructions.
pub(crate) fn host_is_idle(on: On, op: &dyn Tested) -> Check {
    let engine = match on {
        // Of no thread but the caller's, whose heap is counted.
        On::Cpu => Engine::cpu_with_threads(1)?,
        // An engine of its own, whose counts no other test changes.
        On::Cuda => Engine::cuda(0)?,
    };
    // The driver's call that launches a graph is looked up at its first use in a process.
    let none = Graph::new(&Arc::new(StateSpec::new()));
    let mut state = State::new(&engine, none.state_spec())?;
    Program::compile(&engine, &state, "first", &none)?.run(&mut state)?;
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let mut cases: Vec<Case> = Vec::new();
        each(op, Which::Light, |case| {
            if case.dtype == dtype && !case.large() {
                cases.push(case.clone());
            }
            Ok(())
        })?;
        if !cases.is_empty() {
            all_in_one(on, &engine, &cases)?;
        }
    }
    Ok(())
}

/// The name of an argument of a case.
fn argument(case: usize, input: usize) -> String {
    format!("{case}.{input}")
}

fn all_in_one(on: On, engine: &Engine, cases: &[Case]) -> Check {
    let mut spec = StateSpec::new();
    for (n, case) in cases.iter().enumerate() {
        for (i, host) in case.inputs.iter().enumerate().filter(|(i, _)| case.updates(*i)) {
            let name = argument(n, i);
            spec.add(&format!("slab {name}"), host.spec.dtype, &[(name, host.spec.shape)])?;
        }
    }
    let spec = Arc::new(spec);
    let (graph, mut state) = (Graph::new(&spec), State::new(engine, &spec)?);
    for (n, case) in cases.iter().enumerate() {
        let values = case.inputs.iter().enumerate().map(|(i, host)| match case.updates(i) {
            true => graph.entry(&argument(n, i)),
            false => Ok(graph.input(&argument(n, i), host.spec.dtype, host.spec.shape)),
        });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        for (j, v) in graph.op_dyn(case.op.clone(), &values)?.into_iter().enumerate() {
            graph.output(&format!("{n}.{j}"), v);
        }
    }
    let mut program = Program::compile(engine, &state, "all in one", &graph)?;
    let counter: &'static AtomicU64 = Box::leak(Box::default());
    let mut results = Vec::new();
    for way in ["replayed", "issued"] {
        load(cases, &mut program, &mut state)?;
        let (before, heap) = (engine.counters(), counter.load(SeqCst));
        engine.enter(|| {
            for _ in 0..2 {
                if way == "issued" {
                    program.issue(&mut state)?;
                } else {
                    COUNTER.set(Some(counter));
                    let replayed = program.run(&mut state);
                    COUNTER.set(None);
                    replayed?;
                }
            }
            engine.synchronize()
        })?;
        let after = engine.counters();
        let at = format!("{} in {}, {way}", cases[0].op.name(), cases[0].dtype);
        let heap = counter.load(SeqCst) - heap;
        ensure!(heap == 0, "{at}: {heap} heap allocations");
        ensure!(after.allocations == before.allocations, "{at}: device allocations");
        ensure!(after.host_transfers == before.host_transfers, "{at}: host transfers");
        if way == "replayed" {
            ensure!(after.replays - before.replays == 2, "{at}: not one replay a run");
            let launches = after.launches - before.launches;
            ensure!(on == On::Cpu || launches == 2, "{at}: {launches} launches of two replays");
        }
        results.push(read(cases, &program, &state)?);
    }
    for (case, (replayed, issued)) in cases.iter().zip(results[0].iter().zip(&results[1])) {
        same(case, "replayed twice, and issued twice", replayed, issued)?;
    }
    Ok(())
}

fn load(cases: &[Case], program: &mut Program, state: &mut State) -> Check {
    for (n, case) in cases.iter().enumerate() {
        for (i, host) in case.inputs.iter().enumerate() {
            let name = argument(n, i);
            if case.updates(i) {
                state.write_host(&name, host)?;
            } else {
                with_dtype!(any host.spec.dtype, T => {
                    program.write::<T>(&name, &crate::place::elements::<T>(&host.to_bytes()))
                })?;
            }
        }
    }
    Ok(())
}

/// The results of each case. An update's is in the state, and its program output a copy of that.
fn read(cases: &[Case], program: &Program, state: &State) -> Check<Vec<Vec<Vec<u8>>>> {
    let of = |(n, case): (usize, &Case)| -> Check<Vec<Vec<u8>>> {
        let result = |j: usize| match case.updated(j) {
            Some(i) => state.read_host(&argument(n, i)),
            None => program.read_host(&format!("{n}.{j}")),
        };
        let all = (0..case.outputs.len()).map(|j| result(j).map(|h| h.to_bytes()));
        Ok(all.collect::<Result<Vec<_>, _>>()?)
    };
    cases.iter().enumerate().map(of).collect()
}
