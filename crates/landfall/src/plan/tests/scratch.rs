//! Bad plans: scratch memory, bounds, alignment, edges, packings and outputs.

use super::test_ops::{Butterfly, Decay, Hungry};
use super::{planned, refused, three, update};
use crate::contract::{Graph, Value};
use crate::error::{Error, PlanError};
use crate::lower::Home;
use crate::ops;
use crate::plan::verify;
use crate::values::{Block, DType};

fn hungry(g: &Graph) -> Result<(), Error> {
    let x = g.input("x", DType::F64, [4, 4]);
    let a = g.name(g.neg(x)?, "a");
    let b = g.name(g.op1(Hungry, &[a])?, "b");
    let c = g.name(g.matmul(a, b)?, "c");
    g.output("y", g.sum(c, [0, 1])?);
    Ok(())
}

#[test]
fn scratch_memory_on_an_operand() -> Result<(), Error> {
    for (operand, shift) in [("a", 0), ("b", 0), ("a", 64)] {
        let mut p = planned(hungry)?;
        let k = p.maker("b");
        p.plan.workspaces[k] = p.plan.places[p.id(operand).0].offset + shift;
        p.plan.arena += p.lowered.instructions[k].workspace;
        p.reorder();
        let error = p.refusal();
        assert!(matches!(error, PlanError::Workspace { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("instruction 1 (hungry) has scratch memory that its operand "), "{text}");
    }
    Ok(())
}

#[test]
fn scratch_memory_on_a_live_value() -> Result<(), Error> {
    let mut p = planned(|g| {
        let x = g.input("x", DType::F64, [4, 4]);
        let a = g.name(g.neg(x)?, "a");
        let b = g.name(g.op1(Hungry, &[x])?, "b");
        g.output("y", g.matmul(a, b)?);
        Ok(())
    })?;
    let k = p.maker("b");
    let (a, b) = (p.plan.places[p.id("a").0].offset, p.id("b"));
    p.plan.workspaces[k] = a;
    p.plan.places[b.0].offset = a + p.lowered.instructions[k].workspace;
    let product = p.lowered.instructions.len() - 1;
    p.plan.workspaces[product] = p.plan.places[b.0].offset + 128;
    p.plan.arena = p.plan.workspaces[product] + p.lowered.instructions[product].workspace;
    p.reorder();
    refused!(
        p,
        PlanError::Stale { .. },
        "instruction 2 (matmul) reads a, but its memory holds scratch memory since instruction 1"
    );
    Ok(())
}

#[test]
fn out_of_bounds() -> Result<(), Error> {
    let mut p = planned(three)?;
    let a = p.id("a");
    p.plan.places[a.0].offset = p.plan.arena - 64;
    let (start, size) = (p.plan.arena - 64, p.plan.arena);
    refused!(
        p,
        PlanError::OutOfBounds { .. },
        format!("a lies at bytes {start}..{} of Arena, which has {size}", start + 128)
    );
    let mut p = planned(hungry)?;
    let k = p.maker("b");
    p.plan.workspaces[k] = p.plan.arena;
    let (start, size) = (p.plan.arena, p.plan.arena);
    refused!(
        p,
        PlanError::OutOfBounds { .. },
        format!("scratch of hungry#1 lies at bytes {start}..{} of Arena, which has {size}", start + 1024)
    );
    let mut p = planned(update)?;
    p.slabs[0] = 64;
    refused!(p, PlanError::OutOfBounds { .. }, "weights lies at bytes 0..128 of Slab(0), which has 64");
    Ok(())
}

#[test]
fn unaligned() -> Result<(), Error> {
    let mut p = planned(three)?;
    let b = p.id("b");
    p.plan.places[b.0].offset += 4;
    p.plan.arena += 64;
    let at = p.plan.places[b.0].offset;
    refused!(p, PlanError::Unaligned { .. }, format!("b is not aligned: byte {at} of Arena"));
    let mut p = planned(hungry)?;
    let k = p.maker("b");
    p.plan.workspaces[k] = p.plan.arena + 8;
    p.plan.arena += 2048;
    let at = p.plan.workspaces[k];
    refused!(
        p,
        PlanError::Unaligned { .. },
        format!("scratch of hungry#1 is not aligned: byte {at} of Arena")
    );
    Ok(())
}

#[test]
fn read_without_its_edge() -> Result<(), Error> {
    let mut p = planned(three)?;
    assert_eq!(p.lowered.instructions[2].after, [0, 1]);
    p.lowered.instructions[2].after = vec![1];
    refused!(
        p,
        PlanError::Unordered { needed: 0, .. },
        "instruction 2 (matmul) is not ordered after instruction 0, which touches the same memory or is the collective before it"
    );
    // An edge through another instruction is as good.
    p.lowered.instructions[1].after = vec![0];
    verify(&p.lowered, &p.plan, &p.slabs)?;
    Ok(())
}

#[test]
fn overwrite_without_its_edge() -> Result<(), Error> {
    // The sum reads w, and the update overwrites it: only an edge keeps them in order.
    let mut p = planned(|g| {
        let w = g.slab("weights")?;
        g.output("before", g.sum(w, [0])?);
        g.op1(Decay { keep: 0.5 }, &[w, g.slab("constants")?])?;
        Ok(())
    })?;
    assert_eq!(p.lowered.instructions[1].op.name(), "decay");
    assert_eq!(p.lowered.instructions[1].after, [0]);
    p.lowered.instructions[1].after.clear();
    refused!(
        p,
        PlanError::Unordered { needed: 0, .. },
        "instruction 1 (decay) is not ordered after instruction 0, which touches the same memory or is the collective before it"
    );
    Ok(())
}

#[test]
fn second_write_without_its_edge() -> Result<(), Error> {
    // b takes over the memory of a value that was written and never read since.
    let mut p = planned(|g| {
        let x = g.input("x", DType::F64, [4, 4]);
        let out = g.op(Butterfly, &[x, g.neg(x)?])?;
        g.name(out[1], "dropped");
        let s = g.sum(out[0], [0, 1])?;
        let b = g.name(g.tanh(g.matmul(x, x)?)?, "b");
        g.output("y", g.add(b, s)?);
        Ok(())
    })?;
    let (maker, writer) = (p.maker("dropped"), p.maker("b"));
    p.put("b", "dropped");
    p.reorder();
    for i in &mut p.lowered.instructions[maker + 1..=writer] {
        i.after.retain(|&k| k > maker);
    }
    let error = p.refusal();
    assert!(matches!(error, PlanError::Unordered { needed, .. } if needed == maker), "{error:?}");
    Ok(())
}

#[test]
fn parts_of_a_packing_land_in_it() -> Result<(), Error> {
    let build = |g: &Graph| -> Result<Vec<Value>, Error> {
        let x = g.input("x", DType::F64, [5]);
        let parts = vec![g.name(g.neg(x)?, "a"), g.name(g.tanh(x)?, "b")];
        g.output("packed", g.name(g.op1(ops::Pack, &parts)?, "packed"));
        Ok(parts)
    };
    let mut p = planned(|g| build(g).map(|_| ()))?;
    let (a, b, packed) = (p.id("a"), p.id("b"), p.id("packed"));
    assert_eq!(p.lowered.values[a.0].home, Home::Within(packed, 0));
    assert_eq!(p.lowered.values[b.0].home, Home::Within(packed, 128));
    p.lowered.values[b.0].home = Home::Within(packed, 64);
    p.plan.places[b.0].offset = 64;
    p.reorder();
    refused!(
        p,
        PlanError::Alias { output: 0, input: 1, .. },
        "instruction 2 (pack): output 0 (packed) and input 1 (b) are Overlapping; the op allows each input to be its own part of the output, or to share no memory"
    );
    // A part that is read after the packing keeps memory of its own: that of the packing may have changed by then.
    let p = planned(|g| {
        let parts = build(g)?;
        g.output("later", g.sum(parts[0], [0])?);
        Ok(())
    })?;
    assert_eq!(p.lowered.values[p.id("a").0].home, Home::Arena);
    Ok(())
}

#[test]
fn outputs_have_memory_of_their_own() -> Result<(), Error> {
    // The state before and after its update, and a value that is updated later: each output is what was named.
    let p = planned(|g| {
        let w = g.slab("weights")?;
        let new = g.op1(Decay { keep: 0.5 }, &[w, g.slab("constants")?])?;
        let x = g.neg(g.input("x", DType::F64, [16]))?;
        let y = g.op1(Decay { keep: 0.5 }, &[x, w])?;
        for (name, v) in [("before", w), ("after", new), ("x", x), ("y", y)] {
            g.output(name, v);
        }
        Ok(())
    })?;
    let blocks: Vec<Block> = p.lowered.outputs.iter().map(|(_, a)| p.plan.places[a.value.0].block).collect();
    for (i, b) in blocks.iter().enumerate() {
        assert!(matches!(b, Block::Own(_)), "output {i} lies in {b:?}");
        assert!(!blocks[..i].contains(b), "output {i} shares {b:?}");
    }
    Ok(())
}

#[test]
fn value_across_two_allocations() -> Result<(), Error> {
    let mut p = planned(three)?;
    let b = p.plan.places[p.id("b").0].offset;
    p.plan.cuts = vec![b];
    verify(&p.lowered, &p.plan, &p.slabs)?;
    p.plan.cuts = vec![b + 64];
    let text = p.refusal().to_string();
    let want = format!(
        "b lies at bytes {b}..{} of the arena, of which another allocation begins at {}",
        b + 128,
        b + 64
    );
    assert_eq!(text, want);
    Ok(())
}
