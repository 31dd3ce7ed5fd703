//! Ranks meet in one order: collectives are ordered among themselves, whatever bytes they touch.

use super::{planned, refused};
use crate::contract::Graph;
use crate::error::{Error, PlanError};
use crate::ops::{AllReduce, Reduction};
use crate::values::DType;

/// Two collectives that share no bytes, and between them work that shares bytes with neither.
fn two(g: &Graph) -> Result<(), Error> {
    let sum = AllReduce { reduction: Reduction::Sum };
    for (input, output) in [("x", "first"), ("y", "second")] {
        let x = g.input(input, DType::F64, [4, 4]);
        g.output(output, g.name(g.op1(sum, &[x])?, input));
        g.output(&format!("{output} tanh"), g.tanh(g.input(&format!("of {input}"), DType::F64, [4, 4]))?);
    }
    Ok(())
}

#[test]
fn a_collective_waits_for_the_one_before_it() -> Result<(), Error> {
    let mut p = planned(two)?;
    let collectives: Vec<usize> =
        (0..p.lowered.instructions.len()).filter(|&k| p.lowered.instructions[k].op.collective()).collect();
    let [first, second] = collectives[..] else { panic!("two collectives, not {collectives:?}") };
    for (k, instruction) in p.lowered.instructions.iter().enumerate() {
        let expected: &[usize] = if k == second { &[first] } else { &[] };
        assert_eq!(instruction.after, expected, "instruction {k}");
    }
    p.lowered.instructions[second].after.clear();
    let text = format!(
        "instruction {second} (all_reduce) is not ordered after instruction {first}, which touches the same memory or is the collective before it"
    );
    refused!(p, PlanError::Unordered { .. }, text);
    Ok(())
}

/// What is summed over ranks was made first, but the graph asks for the sum last: it is issued where it can be, before what it does
/// not need, and before the collective that must wait for that.
#[test]
fn a_collective_is_issued_as_soon_as_it_can_be() -> Result<(), Error> {
    let p = planned(|g| {
        let sum = AllReduce { reduction: Reduction::Sum };
        let x = g.input("x", DType::F64, [4, 4]);
        let first = g.matmul(x, x)?;
        let second = g.matmul(first, x)?;
        let last = g.matmul(second, x)?;
        g.output("late", g.op1(sum, &[g.neg(last)?])?);
        g.output("early", g.op1(sum, &[g.neg(first)?])?);
        Ok(())
    })?;
    let names: Vec<&str> = p.lowered.instructions.iter().map(|i| i.op.name()).collect();
    let expected = ["matmul", "neg", "all_reduce", "matmul", "matmul", "neg", "all_reduce"];
    assert_eq!(names, expected);
    Ok(())
}
