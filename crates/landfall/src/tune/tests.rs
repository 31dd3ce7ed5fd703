//! What the tuner does with candidates that are wrong, with what the cache says, and with times.

use super::*;
use crate::case::{Case, cases, few};
use crate::device::Operand;
use crate::gpu::gpu;
use crate::ops::{Alias, table};
use crate::tensor::Tensor;

fn times(of: &[&[u64]]) -> Vec<Vec<Duration>> {
    of.iter().map(|t| t.iter().map(|&us| Duration::from_micros(us)).collect()).collect()
}

#[test]
fn only_what_is_clearly_faster_is_chosen() {
    let own: &[u64] = &[100, 101, 102, 103, 104, 105, 106, 107, 108];
    let clear: &[u64] = &[80, 81, 82, 83, 84, 85, 86, 87, 300];
    assert_eq!(faster(&times(&[own, clear])), 1);
    // A better median, in a spread as wide as the gain.
    let noisy: &[u64] = &[60, 62, 65, 70, 90, 110, 120, 130, 140];
    assert_eq!(faster(&times(&[own, noisy])), 0);
    // Steady, and not by enough.
    let close: &[u64] = &[99, 99, 99, 99, 99, 99, 99, 99, 99];
    assert_eq!(faster(&times(&[&[101; 9], close])), 0);
    assert_eq!(faster(&times(&[own, own])), 0);
    assert_eq!(faster(&times(&[own])), 0);
    // Of several the fastest.
    assert_eq!(faster(&times(&[own, clear, &[50; 9], noisy])), 2);
}

#[test]
fn quartiles_are_of_the_sorted_times() {
    let of = quartiles(&times(&[&[9, 1, 8, 2, 7, 3, 6, 4, 5]])[0]);
    assert_eq!(of.map(|d| d.as_micros()), [3, 5, 7]);
}

/// A device of the tests, in turn.
fn engines() -> Vec<Engine> {
    let own = Engine::cpu_with_threads(1).expect("the processor is there");
    let gpu = gpu().expect("a GPU that is there starts");
    std::iter::once(own).chain(gpu).collect()
}

/// Every way to put outputs into inputs, one beside the updates, that an op's rule permits.
fn sharings(case: &Case) -> Vec<Vec<Option<usize>>> {
    let updates: Vec<Option<usize>> = (0..case.outputs.len()).map(|j| case.updated(j)).collect();
    let mut all = vec![updates.clone()];
    for (j, output) in case.outputs.iter().enumerate() {
        let Alias::InPlace(which) = case.alias(j) else { continue };
        for &i in which.iter().filter(|&&i| case.inputs.get(i).is_some_and(|h| h.spec == *output)) {
            let mut shared = updates.clone();
            shared[j] = Some(i);
            all.push(shared);
        }
    }
    all
}

/// Operands that live, in tensors: each output in memory of its own, or in the input that it shares.
struct Live {
    tensors: Vec<Tensor>,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
}

impl Live {
    fn new(engine: &Engine, case: &Case, shared: &[Option<usize>]) -> Self {
        let mut tensors: Vec<Tensor> =
            case.inputs.iter().map(|h| engine.from_host(h).expect("memory")).collect();
        let inputs: Vec<Operand> = tensors.iter().map(|t| *t.view().operand()).collect();
        let mut outputs = Vec::new();
        for (spec, shared) in case.outputs.iter().zip(shared) {
            outputs.push(match shared {
                Some(i) => inputs[*i],
                None => {
                    tensors.push(engine.empty(spec.dtype, spec.shape).expect("memory"));
                    *tensors[tensors.len() - 1].view().operand()
                }
            });
        }
        Self { tensors, inputs, outputs }
    }

    /// All that they hold.
    fn bytes(&self, engine: &Engine) -> Vec<Vec<u8>> {
        let read = |t: &Tensor| {
            let mut bytes = vec![0; t.spec().bytes()];
            engine.handle().download(t.view().operand().base, &mut bytes).expect("readable");
            bytes
        };
        self.tensors.iter().map(read).collect()
    }
}

#[test]
fn r31_tuning_leaves_live_operands_alone() {
    for engine in engines() {
        let (mut tuned_ops, mut calls) = (Vec::new(), 0);
        for op in table() {
            for case in few(cases(op.as_ref()).expect("samples")).expect("cases") {
                if case.large() || case.outputs.iter().all(|o| o.bytes() == 0) {
                    continue;
                }
                for shared in sharings(&case) {
                    let live = Live::new(&engine, &case, &shared);
                    let before = live.bytes(&engine);
                    let problem = Problem::new(&case.op, &live.inputs, &live.outputs);
                    let found = tune(&engine, &[problem], None, false).expect("tuned");
                    assert_eq!(live.bytes(&engine), before, "{case}, outputs in inputs {shared:?}");
                    calls += 1;
                    if !found.rows.is_empty() && !tuned_ops.contains(&op.name()) {
                        tuned_ops.push(op.name());
                    }
                }
            }
        }
        println!("{}: {calls} calls, tuned: {}", engine.device(), tuned_ops.join(", "));
        assert!(tuned_ops.contains(&"matmul") && tuned_ops.contains(&"grouped_matmul"), "{tuned_ops:?}");
    }
}
