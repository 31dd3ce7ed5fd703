//! The independent checker: it does not know how offsets were chosen. It walks the instructions in order and tracks,
//! for every byte of every block, which value wrote it last. Each read must find the bytes of the value that it names,
//! each alias rule must hold, each write must be ordered after all instructions that still need the bytes.

use super::Plan;
use super::ordered::first_unordered;
use super::parts;
use crate::contract::{Alias, Coverage, alias, check, part_offsets};
use crate::error::PlanError;
use crate::lower::{Arg, Home, Instruction, Lowered};
use crate::values::{ALIGNMENT, Address, Block, Operand, Relation, StoredId};
use std::collections::{BTreeMap, HashMap};

/// The last writer of a byte range, its readers since, and the time of the write.
#[derive(Debug, Clone)]
struct Owner {
    end: usize,
    value: Option<StoredId>,
    writer: Option<usize>,
    readers: Vec<usize>,
}

/// Ranges of one block by start. Bytes outside are unwritten.
type Ranges = BTreeMap<usize, Owner>;

struct Checker<'a> {
    lowered: &'a Lowered,
    plan: &'a Plan,
    blocks: HashMap<Block, Ranges>,
    /// Pairs of an instruction and one that must be complete before it.
    needed: Vec<(usize, usize)>,
    /// Written values.
    written: Vec<bool>,
    constants: Vec<StoredId>,
}

/// Verifies that running the instructions in order, or in any order that their edges allow, gives each instruction the
/// values that it names.
///
/// # Errors
/// The first rule that the plan violates.
pub(crate) fn verify(lowered: &Lowered, plan: &Plan, slab_bytes: &[usize]) -> Result<(), PlanError> {
    let constants = (0..lowered.values.len()).filter(|&v| lowered.values[v].constant).map(StoredId).collect();
    let written = vec![false; lowered.values.len()];
    let mut checker =
        Checker { lowered, plan, blocks: HashMap::new(), needed: Vec::new(), written, constants };
    checker.places(slab_bytes)?;
    for v in (0..lowered.values.len()).filter(|&v| lowered.values[v].initial) {
        checker.write(StoredId(v), None);
    }
    for (k, instruction) in lowered.instructions.iter().enumerate() {
        checker.step(k, instruction)?;
    }
    checker.ends()?;
    lowered.segments.iter().try_for_each(|s| parts::verify(lowered, plan, s))?;
    let collectives = lowered.instructions.iter().enumerate().filter(|(_, i)| i.op.collective());
    let collectives: Vec<usize> = collectives.map(|(k, _)| k).collect();
    checker.needed.extend(collectives.windows(2).map(|pair| (pair[1], pair[0])));
    let after = |k: usize| &lowered.instructions[k].after[..];
    match first_unordered(after, checker.needed) {
        None => Ok(()),
        Some((instruction, needed)) => {
            let op = lowered.instructions[instruction].op.name();
            Err(PlanError::Unordered { instruction, op, needed })
        }
    }
}

impl Checker<'_> {
    fn range(&self, v: StoredId) -> (Block, usize, usize) {
        let place = self.plan.places[v.0];
        (place.block, place.offset, place.offset + self.lowered.values[v.0].spec.bytes())
    }

    fn name(&self, v: StoredId) -> String {
        self.lowered.values[v.0].name.clone()
    }

    /// Locations, bounds and alignment.
    fn places(&self, slab_bytes: &[usize]) -> Result<(), PlanError> {
        for (v, value) in self.lowered.values.iter().enumerate() {
            let (block, start, end) = self.range(StoredId(v));
            let (expected_block, expected) = match value.home {
                Home::Arena => (Block::Arena, start),
                Home::Slab(s) => (Block::Slab(s), 0),
                Home::Own => (Block::Own(StoredId(v)), 0),
                Home::Within(parent, offset) => {
                    let p = self.plan.places[parent.0];
                    (p.block, p.offset + offset)
                }
            };
            if (expected_block, expected) != (block, start) {
                return Err(PlanError::Misplaced {
                    value: value.name.clone(),
                    block: expected_block,
                    expected,
                    found_block: block,
                    found: start,
                });
            }
            let size = match block {
                Block::Arena => self.plan.arena,
                Block::Slab(s) => slab_bytes.get(s).copied().unwrap_or(0),
                Block::Own(o) => self.lowered.values[o.0].spec.bytes(),
            };
            if end > size && end > start {
                return Err(PlanError::OutOfBounds { value: value.name.clone(), block, start, end, size });
            }
            if block == Block::Arena {
                self.whole(&value.name, start, end)?;
            }
            if start % value.spec.dtype.size() != 0 {
                return Err(PlanError::Unaligned { value: value.name.clone(), block, offset: start });
            }
        }
        Ok(())
    }

    /// A byte range of the arena must be within one allocation.
    fn whole(&self, value: &str, start: usize, end: usize) -> Result<(), PlanError> {
        match self.plan.cuts.iter().find(|&&cut| start < cut && cut < end) {
            None => Ok(()),
            Some(&cut) => Err(PlanError::Torn { value: value.to_owned(), start, end, cut }),
        }
    }

    fn step(&mut self, k: usize, i: &Instruction) -> Result<(), PlanError> {
        let op = i.op.name();
        for a in &i.inputs {
            self.read(k, op, a)?;
        }
        self.aliases(k, i)?;
        if i.workspace > 0 {
            let (start, end) = (self.plan.workspaces[k], self.plan.workspaces[k] + i.workspace);
            if end > self.plan.arena {
                return Err(PlanError::OutOfBounds {
                    value: format!("scratch of {op}#{k}"),
                    block: Block::Arena,
                    start,
                    end,
                    size: self.plan.arena,
                });
            }
            self.whole(&format!("scratch of {op}#{k}"), start, end)?;
            if start % ALIGNMENT != 0 {
                let value = format!("scratch of {op}#{k}");
                return Err(PlanError::Unaligned { value, block: Block::Arena, offset: start });
            }
            for a in i.inputs.iter().chain(&i.outputs) {
                let (block, s, e) = self.range(a.value);
                if block == Block::Arena && s < end && start < e {
                    return Err(PlanError::Workspace { instruction: k, op, value: self.name(a.value) });
                }
            }
            self.overwrite(k, Block::Arena, start, end);
            self.claim(Block::Arena, start, end, None, Some(k));
        }
        for a in &i.outputs {
            let value = &self.lowered.values[a.value.0];
            let (block, start, end) = self.range(a.value);
            let covers =
                a.layout.is_contiguous() && a.layout.offset() == 0 && a.spec().bytes() == value.spec.bytes();
            if self.written[a.value.0] || !covers {
                return Err(PlanError::Rewritten { instruction: k, op, value: self.name(a.value) });
            }
            let hits_constant = self.constants.iter().copied().find(|&c| {
                let (b, s, e) = self.range(c);
                b == block && s < end && start < e
            });
            if let Some(c) = hits_constant {
                return Err(PlanError::Constant { instruction: k, op, value: self.name(c) });
            }
            self.overwrite(k, block, start, end);
            self.write(a.value, Some(k));
        }
        Ok(())
    }

    /// The bytes of a read must be those of the named value, and its writer must be complete.
    fn read(&mut self, k: usize, op: &'static str, a: &Arg) -> Result<(), PlanError> {
        let (block, base, _) = self.range(a.value);
        let span = a.layout.span();
        let size = a.dtype.size();
        let (start, end) = (base + span.start * size, base + span.end * size);
        let limit = base + self.lowered.values[a.value.0].spec.bytes();
        if end > limit && end > start {
            return Err(PlanError::OutOfBounds { value: self.name(a.value), block, start, end, size: limit });
        }
        let name = |v: Option<StoredId>| v.map_or_else(|| "scratch memory".to_owned(), |v| self.name(v));
        let ranges = self.blocks.get(&block);
        let mut at = start;
        let mut writers = Vec::new();
        while at < end {
            let owner = ranges.and_then(|r| r.range(..=at).next_back()).filter(|(_, o)| o.end > at);
            let Some((_, owner)) = owner else {
                return Err(PlanError::MissingWriter { instruction: k, op, value: self.name(a.value) });
            };
            if owner.value != Some(a.value) {
                return Err(if !self.written[a.value.0] {
                    PlanError::MissingWriter { instruction: k, op, value: self.name(a.value) }
                } else {
                    PlanError::Stale {
                        instruction: k,
                        op,
                        value: self.name(a.value),
                        found: name(owner.value),
                        since: owner.writer.unwrap_or(0),
                    }
                });
            }
            writers.extend(owner.writer);
            at = owner.end;
        }
        self.needed.extend(writers.into_iter().map(|w| (k, w)));
        if start < end {
            self.cut(block, start);
            self.cut(block, end);
            if let Some(ranges) = self.blocks.get_mut(&block) {
                ranges.range_mut(start..end).for_each(|(_, o)| o.readers.push(k));
            }
        }
        Ok(())
    }

    /// All writers and readers of these bytes must be complete before they are written.
    fn overwrite(&mut self, k: usize, block: Block, start: usize, end: usize) {
        let Some(ranges) = self.blocks.get(&block).filter(|_| start < end) else { return };
        let first = ranges.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let touched = ranges.range(first..end).filter(|(_, o)| o.end > start);
        self.needed.extend(touched.flat_map(|(_, o)| o.readers.iter().chain(&o.writer)).map(|&n| (k, n)));
    }

    /// Output against input and output against output, by the op's alias rule.
    fn aliases(&self, k: usize, i: &Instruction) -> Result<(), PlanError> {
        let op = i.op.name();
        // Blocks get far-apart addresses, so that one rule table serves eager calls and plans.
        let base = |block: Block| match block {
            Block::Arena => 1 << 60,
            Block::Slab(s) => (2 << 60) + ((s as u64) << 44),
            Block::Own(o) => (3 << 60) + ((o.0 as u64) << 44),
        };
        let operand = |a: &Arg| {
            let place = self.plan.places[a.value.0];
            Operand {
                base: Address(base(place.block)).offset(place.offset),
                dtype: a.dtype,
                layout: a.layout,
            }
        };
        let inputs: Vec<Operand> = i.inputs.iter().map(operand).collect();
        let outputs: Vec<Operand> = i.outputs.iter().map(operand).collect();
        for (output, o) in outputs.iter().enumerate() {
            if let Some(first) = outputs[..output].iter().position(|p| p.relation(o) != Relation::Disjoint) {
                return Err(PlanError::OutputsOverlap { instruction: k, op, first, second: output });
            }
            let alias = alias(i.op.as_ref(), output);
            let align = if let Alias::Parts(align) = alias { align } else { 1 };
            let parts = part_offsets(inputs.iter().map(Operand::spec), align);
            for ((input, operand), at) in inputs.iter().enumerate().zip(parts) {
                let relation = o.relation(operand);
                let part = operand.layout.is_contiguous()
                    && operand.span().0 == o.span().0 + (at * o.dtype.size()) as u64;
                let empty = matches!(alias, Alias::Must(m) if m == input) && operand.spec().bytes() == 0;
                if !empty && !check::permits(alias, input, relation, || part) {
                    let (value, other) =
                        (self.name(i.outputs[output].value), self.name(i.inputs[input].value));
                    return Err(PlanError::Alias {
                        instruction: k,
                        op,
                        output,
                        value,
                        input,
                        other,
                        relation,
                        allowed: check::allowed(alias),
                    });
                }
            }
            let keeps = i.op.outputs().get(output).is_some_and(|o| o.coverage == Coverage::Accumulates);
            if keeps && !matches!(alias, Alias::Must(_)) {
                return Err(PlanError::Uncovered {
                    instruction: k,
                    op,
                    output,
                    value: self.name(i.outputs[output].value),
                });
            }
        }
        Ok(())
    }

    fn write(&mut self, v: StoredId, by: Option<usize>) {
        let (block, start, end) = self.range(v);
        self.written[v.0] = true;
        self.claim(block, start, end, Some(v), by);
    }

    fn claim(
        &mut self,
        block: Block,
        start: usize,
        end: usize,
        value: Option<StoredId>,
        writer: Option<usize>,
    ) {
        if start == end {
            return;
        }
        self.cut(block, start);
        self.cut(block, end);
        let ranges = self.blocks.entry(block).or_default();
        let inside: Vec<usize> = ranges.range(start..end).map(|(&s, _)| s).collect();
        for s in inside {
            ranges.remove(&s);
        }
        ranges.insert(start, Owner { end, value, writer, readers: Vec::new() });
    }

    /// Splits the range that contains `at`.
    fn cut(&mut self, block: Block, at: usize) {
        let ranges = self.blocks.entry(block).or_default();
        if let Some((_, owner)) = ranges.range_mut(..at).next_back()
            && owner.end > at
        {
            let tail = owner.clone();
            owner.end = at;
            ranges.insert(at, tail);
        }
    }

    /// Values that outlive the run are still there: each kept value, or later updates of it.
    fn ends(&self) -> Result<(), PlanError> {
        for v in (0..self.lowered.values.len()).map(StoredId).filter(|v| self.lowered.values[v.0].kept) {
            let (block, start, end) = self.range(v);
            if !self.written[v.0] {
                return Err(PlanError::Unwritten { value: self.name(v) });
            }
            let Some(ranges) = self.blocks.get(&block) else { continue };
            let first = ranges.range(..=start).next_back().map_or(start, |(&s, _)| s);
            for (_, o) in ranges.range(first..end).filter(|(_, o)| o.end > start) {
                let fine = o.value.is_some_and(|w| w == v || self.updates(w, v));
                if !fine {
                    let found = o.value.map_or_else(|| "scratch memory".to_owned(), |w| self.name(w));
                    return Err(PlanError::Clobbered { value: self.name(v), found });
                }
            }
        }
        Ok(())
    }

    /// Whether `v` is an update, or an update of an update, of `of`.
    fn updates(&self, mut v: StoredId, of: StoredId) -> bool {
        while let Home::Within(parent, _) = self.lowered.values[v.0].home {
            if parent == of {
                return true;
            }
            v = parent;
        }
        false
    }
}
