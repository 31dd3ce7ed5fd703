//! A recipe worked out on the host in `f64`, step by step, with no memory shared by anything.

use super::{Recipe, Step};
use landfall::{HostTensor, Spec};
use std::collections::HashMap;

/// Names of the ops whose output is their first argument.
const UPDATES: [&str; 3] = ["decay", "set_even", "running_update"];

/// What a run leaves behind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Results {
    pub(crate) outputs: HashMap<String, HostTensor>,
    pub(crate) state: HashMap<String, HostTensor>,
}

impl Recipe {
    /// What the outputs and the state's entries hold after one run, given what the host wrote.
    pub(crate) fn evaluate(&self, written: &HashMap<String, HostTensor>) -> Results {
        let mut done: Vec<HostTensor> = Vec::with_capacity(self.made.len());
        let mut state: HashMap<String, HostTensor> = self
            .state
            .slabs()
            .iter()
            .flat_map(|s| s.entries.iter().map(|e| (e.name.clone(), written[&e.name].clone())))
            .collect();
        for m in &self.made {
            let of = |f: &dyn Fn(&[usize]) -> f64| {
                let dims = m.spec.shape.dims();
                HostTensor::from_fn(m.spec, |i| f(&unravel(i, dims)))
            };
            let next = match &m.step {
                Step::Input(name) | Step::Entry(name) => written[name].clone(),
                Step::Slab(s) => {
                    let mut data = vec![0.0; m.spec.shape.elements()];
                    for e in &self.state.slabs()[*s].entries {
                        data[e.offset..][..e.shape.elements()].copy_from_slice(&written[&e.name].data);
                    }
                    HostTensor::from_fn(m.spec, |i| data[i])
                }
                Step::Permute(x, axes) => of(&|at| {
                    let mut from = vec![0; at.len()];
                    axes.iter().zip(at).for_each(|(&a, &i)| from[a] = i);
                    get(&done[*x], &from)
                }),
                Step::Slice(x, axis, start, _) => of(&|at| {
                    let mut from = at.to_vec();
                    from[*axis] += start;
                    get(&done[*x], &from)
                }),
                Step::Broadcast(x) => of(&|at| {
                    let dims = done[*x].dims();
                    let from = at[at.len() - dims.len()..].iter().zip(dims);
                    let from: Vec<usize> = from.map(|(&i, &d)| if d == 1 { 0 } else { i }).collect();
                    get(&done[*x], &from)
                }),
                Step::Unfold(x, _, step) => of(&|at| {
                    let (window, j) = (at[at.len() - 2], at[at.len() - 1]);
                    let mut from = at[..at.len() - 1].to_vec();
                    from[at.len() - 2] = window * step + j;
                    get(&done[*x], &from)
                }),
                Step::Reshape(x) => HostTensor::from_fn(m.spec, |i| done[*x].data[i]),
                Step::Op(op, on, output) => {
                    let args: Vec<HostTensor> = on.iter().map(|&i| done[i].clone()).collect();
                    op.reference(&args).swap_remove(*output)
                }
            };
            if let Step::Op(op, on, _) = &m.step
                && UPDATES.contains(&op.name())
            {
                self.store(on[0], &next, &mut state);
            }
            done.push(next);
        }
        let outputs = self.outputs.iter().map(|(name, v)| (name.clone(), done[*v].clone())).collect();
        Results { outputs, state }
    }

    /// An update of `target` to `new` as it shows in the state.
    fn store(&self, target: usize, new: &HostTensor, state: &mut HashMap<String, HostTensor>) {
        match &self.made[target].step {
            Step::Entry(name) => {
                state.insert(name.clone(), new.clone());
            }
            Step::Slab(s) => {
                for e in &self.state.slabs()[*s].entries {
                    let spec = Spec { shape: e.shape, ..new.spec };
                    let part = HostTensor::from_fn(spec, |i| new.data[e.offset + i]);
                    state.insert(e.name.clone(), part);
                }
            }
            // An update of an update: the root says whether it is the state's.
            Step::Op(op, on, _) if UPDATES.contains(&op.name()) => self.store(on[0], new, state),
            Step::Input(_)
            | Step::Permute(..)
            | Step::Slice(..)
            | Step::Broadcast(_)
            | Step::Reshape(_)
            | Step::Unfold(..)
            | Step::Op(..) => {}
        }
    }
}

fn unravel(mut i: usize, dims: &[usize]) -> Vec<usize> {
    let mut at = vec![0; dims.len()];
    for (a, &d) in at.iter_mut().zip(dims).rev() {
        *a = i % d;
        i /= d;
    }
    at
}

fn get(x: &HostTensor, at: &[usize]) -> f64 {
    let i = at.iter().zip(x.dims()).fold(0, |i, (&a, &d)| i * d + a);
    x.data[i]
}
