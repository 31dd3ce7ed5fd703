//! The checker refuses bad plans: each test lowers and plans a small graph, checks that its plan passes, then breaks
//! one thing in it.

use super::{Place, Plan, Reuse, assign, order, verify};
use crate::contract::{Graph, StateSpec};
use crate::error::{Error, PlanError};
use crate::lower::{Home, Lowered, lower};
use crate::passes::optimise;
use crate::values::{Block, DType, DeviceKind, StoredId};
use std::sync::Arc;
use test_ops::{Butterfly, Decay, ReverseRows, SetEven, Undeclared};

mod collectives;
mod scratch;
#[path = "../../../tests/ops/mod.rs"]
mod test_ops;
mod unroll;

/// A lowered program with its plan.
struct Planned {
    lowered: Lowered,
    plan: Plan,
    slabs: Vec<usize>,
}

/// Plans a graph over a state of one slab `w` of 16 elements and one constant `c` of 16, and checks that the plan passes.
fn planned(build: impl FnOnce(&Graph) -> Result<(), Error>) -> Result<Planned, Error> {
    let mut state = StateSpec::new();
    state.add("weights", DType::F64, &[("w".into(), [16].into())])?;
    state.add_constant("constants", DType::F64, &[("c".into(), [16].into())])?;
    let g = Graph::new(&Arc::new(state));
    build(&g)?;
    let mut lowered = lower(&optimise(&g, false), DeviceKind::Cpu, Reuse::Tight)?;
    let plan = assign(&lowered, Reuse::Tight);
    order(&mut lowered, &plan);
    let slabs: Vec<usize> = g.state_spec().slabs().iter().map(|s| s.elements * s.dtype.size()).collect();
    verify(&lowered, &plan, &slabs)?;
    Ok(Planned { lowered, plan, slabs })
}

impl Planned {
    /// The value of this name.
    fn id(&self, name: &str) -> StoredId {
        StoredId(self.lowered.values.iter().position(|v| v.name == name).expect("the graph has this value"))
    }

    /// The instruction that makes the value of this name.
    fn maker(&self, name: &str) -> usize {
        let id = self.id(name);
        let makes = |i: &crate::lower::Instruction| i.outputs.iter().any(|o| o.value == id);
        self.lowered.instructions.iter().position(makes).expect("an instruction makes this value")
    }

    /// Puts one value where another is.
    fn put(&mut self, name: &str, at: &str) {
        let (value, at) = (self.id(name), self.id(at));
        self.plan.places[value.0] = self.plan.places[at.0];
    }

    /// New edges for the plan as it is now, so that only what a test breaks is broken.
    fn reorder(&mut self) {
        order(&mut self.lowered, &self.plan);
    }

    fn refusal(&self) -> PlanError {
        verify(&self.lowered, &self.plan, &self.slabs).expect_err("the checker must refuse this plan")
    }
}

/// Asserts the variant and the text of a refusal.
macro_rules! refused {
    ($planned:expr, $variant:pat, $text:expr) => {{
        let error = $planned.refusal();
        assert!(matches!(error, $variant), "another refusal: {error:?}");
        assert_eq!(error.to_string(), $text);
    }};
}
use refused;

/// `a = −x`, `b = tanh x`, `y = a·b` (4 × 4 matrices, so that nothing runs in place): three buffers in one arena.
fn three(g: &Graph) -> Result<(), Error> {
    let x = g.input("x", DType::F64, [4, 4]);
    let a = g.name(g.neg(x)?, "a");
    let b = g.name(g.tanh(x)?, "b");
    let y = g.name(g.matmul(a, b)?, "y");
    g.output("sum", g.sum(y, [0, 1])?);
    Ok(())
}

#[test]
fn good_plans_pass_and_say_what_they_do() -> Result<(), Error> {
    let p = planned(three)?;
    assert_eq!(p.plan.arena, p.plan.live_peak, "three live matrices need no more than their sum");
    assert_eq!(p.plan.live_peak, p.lowered.instructions[2].workspace.next_multiple_of(64) + 3 * 128);
    Ok(())
}

#[test]
fn two_live_values_in_one_place() -> Result<(), Error> {
    let mut p = planned(three)?;
    p.put("b", "a");
    p.reorder();
    refused!(
        p,
        PlanError::Stale { .. },
        "instruction 2 (matmul) reads a, but its memory holds b since instruction 1"
    );
    Ok(())
}

#[test]
fn two_live_values_that_overlap_in_part() -> Result<(), Error> {
    let mut p = planned(three)?;
    let (a, b) = (p.id("a"), p.id("b"));
    p.plan.places[b.0].offset = p.plan.places[a.0].offset + 64;
    p.plan.arena += 1024;
    p.plan.workspaces[2] = p.plan.arena - 1024;
    p.plan.arena += p.lowered.instructions[2].workspace;
    p.reorder();
    refused!(
        p,
        PlanError::Stale { .. },
        "instruction 2 (matmul) reads a, but its memory holds b since instruction 1"
    );
    Ok(())
}

/// A copy of a transposed square: regression 29, where a compiler gave a permutation's input and output one buffer.
fn permutation(g: &Graph) -> Result<(), Error> {
    let x = g.input("x", DType::F64, [4, 4]);
    let a = g.name(g.neg(x)?, "a");
    let t = g.transpose(a)?;
    g.name(g.copy(t)?, "copy");
    let c = g.copy(t)?;
    g.output("sum", g.sum(c, [0, 1])?);
    Ok(())
}

#[test]
fn r29_permutation_in_place() -> Result<(), Error> {
    let mut p = planned(permutation)?;
    p.put("copy", "a");
    p.reorder();
    refused!(
        p,
        PlanError::Alias { output: 0, input: 0, .. },
        "instruction 1 (copy): output 0 (copy) and input 0 (a) are Overlapping; the op allows no shared memory"
    );
    Ok(())
}

#[test]
fn r30_second_output_of_a_permutation_in_place() -> Result<(), Error> {
    let mut p = planned(|g| {
        let x = g.neg(g.input("x", DType::F64, [4, 2]))?;
        let probs = g.name(g.neg(g.input("p", DType::F64, [4]))?, "probs");
        let out = g.op(ReverseRows, &[x, probs])?;
        g.name(out[1], "permuted_probs");
        let sum = g.sum(out[0], [1])?;
        g.output("y", g.add(sum, out[1])?);
        Ok(())
    })?;
    p.put("permuted_probs", "probs");
    p.reorder();
    refused!(
        p,
        PlanError::Alias { output: 1, input: 1, .. },
        "instruction 2 (reverse_rows): output 1 (permuted_probs) and input 1 (probs) are Identical; the op allows no shared memory"
    );
    Ok(())
}

#[test]
fn in_place_op_shifted_against_its_input() -> Result<(), Error> {
    let mut p = planned(|g| {
        let x = g.input("x", DType::F64, [64]);
        let a = g.name(g.neg(x)?, "a");
        let b = g.name(g.tanh(a)?, "b");
        g.output("sum", g.sum(b, [0])?);
        Ok(())
    })?;
    assert_eq!(p.plan.in_place, 1, "tanh runs in place: exactly on its input is fine");
    let b = p.id("b");
    p.plan.places[b.0].offset += 64;
    p.plan.arena += 64;
    p.reorder();
    refused!(
        p,
        PlanError::Alias { output: 0, input: 0, .. },
        "instruction 1 (tanh): output 0 (b) and input 0 (a) are Overlapping; the op allows exactly one of its in-place inputs, element for element, or no shared memory"
    );
    Ok(())
}

#[test]
fn in_place_on_an_operand_that_is_also_read_otherwise() -> Result<(), Error> {
    let mut p = planned(|g| {
        let x = g.input("x", DType::F64, [4, 4]);
        let a = g.name(g.neg(x)?, "a");
        let t = g.transpose(a)?;
        let b = g.name(g.add(a, t)?, "b");
        g.output("sum", g.sum(b, [0, 1])?);
        Ok(())
    })?;
    assert_eq!(p.plan.in_place, 0, "a + aᵀ must not run in place on a");
    p.put("b", "a");
    p.reorder();
    refused!(
        p,
        PlanError::Alias { output: 0, input: 1, .. },
        "instruction 1 (add): output 0 (b) and input 1 (a) are Overlapping; the op allows exactly one of its in-place inputs, element for element, or no shared memory"
    );
    Ok(())
}

#[test]
fn missing_writer() -> Result<(), Error> {
    let mut p = planned(three)?;
    let removed = p.lowered.instructions.remove(p.maker("b"));
    assert_eq!(removed.op.name(), "tanh");
    p.plan.workspaces.remove(1);
    p.reorder();
    refused!(p, PlanError::MissingWriter { .. }, "instruction 1 (matmul) reads b, which nothing has written");
    Ok(())
}

#[test]
fn output_that_nothing_writes() -> Result<(), Error> {
    let mut p = planned(three)?;
    p.lowered.instructions.pop();
    p.plan.workspaces.pop();
    refused!(p, PlanError::Unwritten { .. }, "nothing writes sum#3, which is read after the run");
    Ok(())
}

#[test]
fn memory_reused_before_the_last_read() -> Result<(), Error> {
    let mut p = planned(|g| {
        let x = g.input("x", DType::F64, [4, 4]);
        let a = g.name(g.neg(x)?, "a");
        let b = g.name(g.matmul(a, x)?, "b");
        let c = g.name(g.matmul(b, x)?, "c");
        g.output("y", g.matmul(c, a)?);
        Ok(())
    })?;
    p.put("c", "a");
    p.reorder();
    let error = p.refusal();
    assert!(matches!(error, PlanError::Alias { .. } | PlanError::Stale { .. }), "{error:?}");
    // As `c` is an input of the last product too, the stale one is `a`.
    assert_eq!(
        error.to_string(),
        "instruction 3 (matmul) reads a, but its memory holds c since instruction 2"
    );
    Ok(())
}

/// Two outputs, each of which may run in place on its own argument.
fn butterfly(g: &Graph) -> Result<(), Error> {
    let x = g.input("x", DType::F64, [16]);
    let out = g.op(Butterfly, &[x, g.neg(x)?])?;
    g.name(out[0], "sum");
    g.name(out[1], "difference");
    g.output("y", g.mul(out[0], out[1])?);
    Ok(())
}

#[test]
fn two_outputs_in_one_buffer() -> Result<(), Error> {
    let mut p = planned(butterfly)?;
    p.put("difference", "sum");
    p.reorder();
    refused!(
        p,
        PlanError::OutputsOverlap { first: 0, second: 1, .. },
        "instruction 1 (butterfly) writes outputs 0 and 1 into shared memory"
    );
    Ok(())
}

/// `w ← w / 2 + c`.
fn update(g: &Graph) -> Result<(), Error> {
    let out = g.op1(Decay { keep: 0.5 }, &[g.slab("weights")?, g.slab("constants")?])?;
    g.name(out, "updated");
    g.output("sum", g.sum(out, [0])?);
    Ok(())
}

#[test]
fn update_of_a_constant() -> Result<(), Error> {
    let mut p = planned(update)?;
    let weights = p.id("weights");
    p.lowered.values[weights.0].constant = true;
    refused!(p, PlanError::Constant { .. }, "instruction 0 (decay) writes weights, a constant");
    // And lowering does not let it come so far.
    let refused = planned(|g| {
        let c = g.slab("constants")?;
        g.op1(Decay { keep: 0.5 }, &[c, g.neg(c)?])?;
        Ok(())
    });
    let text = refused.err().expect("a constant cannot be updated").to_string();
    assert!(text.contains("input 0 is updated in place, but it is a constant of the state"), "{text}");
    Ok(())
}

#[test]
fn update_placed_elsewhere() -> Result<(), Error> {
    let mut p = planned(update)?;
    let updated = p.id("updated");
    p.plan.places[updated.0].block = Block::Arena;
    p.plan.arena += 1024;
    refused!(
        p,
        PlanError::Misplaced { .. },
        "updated must lie at byte 0 of Slab(0), the plan has it at 0 of Arena"
    );
    // Also where the lowered program itself says so, the op's rule stands.
    p.lowered.values[updated.0].home = Home::Arena;
    p.reorder();
    refused!(
        p,
        PlanError::Alias { output: 0, input: 0, .. },
        "instruction 0 (decay): output 0 (updated) and input 0 (weights) are Disjoint; the op allows this output to be its updated input and nothing else"
    );
    Ok(())
}

#[test]
fn part_of_an_output_kept_without_an_update() -> Result<(), Error> {
    planned(|g| {
        g.op1(SetEven, &[g.slab("weights")?, g.slab("constants")?])?;
        Ok(())
    })?;
    let refused = planned(|g| {
        let out = g.op1(Undeclared, &[g.slab("weights")?, g.slab("constants")?])?;
        g.output("y", out);
        Ok(())
    });
    let Err(Error::Plan(error)) = refused else { panic!("an undeclared update must be refused") };
    assert!(matches!(error, PlanError::Uncovered { .. }));
    assert_eq!(
        error.to_string(),
        "instruction 0 (undeclared) keeps part of output 0 (undeclared#0), but does not update it in place"
    );
    Ok(())
}

#[test]
fn use_after_the_end_of_a_value() -> Result<(), Error> {
    // The reader of `a` moves behind the instruction that took over its memory.
    let mut p = planned(|g| {
        let x = g.input("x", DType::F64, [4, 4]);
        let a = g.name(g.neg(x)?, "a");
        let s = g.sum(a, [0, 1])?;
        let b = g.name(g.tanh(g.matmul(x, x)?)?, "b");
        g.output("s", s);
        g.output("t", g.sum(b, [0, 1])?);
        Ok(())
    })?;
    let reader = p.maker("sum#1");
    p.put("b", "a");
    p.reorder();
    // `b` may take over the memory of `a`, which has ended.
    verify(&p.lowered, &p.plan, &p.slabs)?;
    let last = p.lowered.instructions.len() - 1;
    p.lowered.instructions.swap(reader, last);
    let text = p.refusal().to_string();
    assert!(text.contains("reads b, which nothing has written"), "{text}");
    p.lowered.instructions.swap(reader, last);
    let moved = p.lowered.instructions.remove(reader);
    p.lowered.instructions.push(moved);
    let workspace = p.plan.workspaces.remove(reader);
    p.plan.workspaces.push(workspace);
    p.reorder();
    let error = p.refusal();
    assert!(matches!(error, PlanError::Stale { .. }), "{error:?}");
    assert!(error.to_string().contains("(sum) reads a, but its memory holds "), "{error}");
    Ok(())
}

#[test]
fn kept_value_overwritten() -> Result<(), Error> {
    let mut p = planned(|g| {
        let x = g.input("x", DType::F64, [4, 4]);
        g.output("first", g.name(g.neg(x)?, "a"));
        g.output("second", g.name(g.tanh(x)?, "b"));
        Ok(())
    })?;
    // Both outputs say that they lie in the arena, at one place.
    for name in ["a", "b"] {
        let id = p.id(name);
        p.lowered.values[id.0].home = Home::Arena;
        p.plan.places[id.0] = Place { block: Block::Arena, offset: 0 };
    }
    p.plan.arena = 128;
    p.reorder();
    refused!(
        p,
        PlanError::Clobbered { .. },
        "the program leaves a overwritten by b; it must outlive the run"
    );
    Ok(())
}

#[test]
fn value_written_twice() -> Result<(), Error> {
    let mut p = planned(three)?;
    let again = p.lowered.instructions[0].clone();
    p.lowered.instructions.push(again);
    p.plan.workspaces.push(0);
    p.reorder();
    refused!(p, PlanError::Rewritten { .. }, "instruction 4 (neg) writes a twice, or after its end");
    Ok(())
}
