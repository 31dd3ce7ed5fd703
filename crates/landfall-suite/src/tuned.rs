//! The tuner on every op: what a program holds is not touched by it, and each kernel that it may choose gives right
//! results.

use crate::case::{Check, Which, each, ensure};
use crate::compare::{BODY, Worst, close};
use crate::device::On;
use crate::programs::{graph_of, load, outputs};
use landfall::ops::Tested;
use landfall::plan::Reuse;
use landfall::tune::tune;
use landfall::{DType, Graph, HostTensor, OpError, Program, State, Value};

/// Largest error of a variant in its unit. In f32 one thread of a GPU that adds up 3,000 products is 17.7 off.
fn bound(dtype: DType) -> f64 {
    if dtype == DType::F32 { 24.0 } else { BODY }
}

/// Programs of the op that share memory wherever it is legal, and of which the op is given the program's own inputs: state,
/// results and inputs are the same bytes after tuning. Then each of the op's kernels, pinned, against the reference.
pub(crate) fn tuned(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?.with_reuse(Reuse::Most);
    each(op, Which::Light, |case| {
        let (build, name) = (|g: &Graph, values: &[Value]| g.op_dyn(case.op.clone(), values), "tuned");
        for copied in [false, true] {
            let (graph, mut state) = graph_of(&engine, case, copied, build)?;
            let mut program = Program::compile(&engine, &state, name, &graph)?;
            let cases = program.tuning_cases();
            if !cases.iter().any(|p| p.tunable(&engine)) {
                continue;
            }
            load(case, &mut program, &mut state)?;
            let held = |state: &State| -> Check<Vec<HostTensor>> {
                let updated = (0..case.inputs.len()).filter(|&i| case.updates(i));
                Ok(updated.map(|i| state.read_host(&format!("input{i}"))).collect::<Result<_, _>>()?)
            };
            let before = held(&state)?;
            let tuned = tune(&engine, &cases, None, false)?;
            let changed = held(&state)?.iter().zip(&before).any(|(a, b)| a.to_bytes() != b.to_bytes());
            ensure!(!changed, "{case}: tuning changed the state");
            program.run(&mut state)?;
            let want = outputs(case, &program)?;
            for row in &tuned.rows {
                for candidate in &row.candidates {
                    let mut choices = tuned.choices.clone();
                    choices.kernels.insert(row.instruction.clone(), candidate.kernel.clone());
                    let engine = engine.with_choices(choices);
                    let (graph, mut state) = graph_of(&engine, case, copied, build)?;
                    let mut pinned = match Program::compile(&engine, &state, name, &graph) {
                        // Not every algorithm that the matrix library could have is there, nor on every GPU every
                        // instruction.
                        Err(e) if candidate.rejected() => {
                            let (why, absent) =
                                (e.to_string(), ["proposes no algorithm", "it is written for"]);
                            ensure!(absent.iter().any(|a| why.contains(a)), "{case}: {why}");
                            continue;
                        }
                        compiled => compiled?,
                    };
                    ensure!(!candidate.rejected(), "{case}: {} is rejected: {candidate:?}", candidate.kernel);
                    load(case, &mut pinned, &mut state)?;
                    pinned.run(&mut state)?;
                    let got = outputs(case, &pinned)?;
                    if candidate.kernel == row.candidates[0].kernel {
                        ensure!(got == want, "{case}: the op's own choice, pinned, gives other bytes");
                    }
                    let of = |bytes: &[Vec<u8>]| -> Result<Vec<HostTensor>, OpError> {
                        let specs = case.outputs.iter().zip(bytes);
                        specs.map(|(&s, b)| HostTensor::from_bytes(s, b)).collect()
                    };
                    close(case, &of(&got)?, &case.reference()?, bound, &mut Worst::new())?;
                }
            }
        }
        Ok(())
    })
}
