//! One launch, run twice over poisoned memory.

use super::POISON;
use super::memory::{Block, Memory};
use crate::device::Launch;
use crate::error::{Error, Finding, Role};
use crate::values::Operand;
use std::collections::BTreeMap;
use std::ops::Range;

/// The poison of bytes that a launch may not read: in the first run, in the second.
const PAINT: [u8; 2] = [POISON, 0x5A];

/// Why a launch failed.
pub(super) enum Stopped {
    /// The device, a rule, or an index out of range.
    Device(Error),
    /// A violation.
    Found(Finding),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Device(error)
    }
}

impl From<Finding> for Stopped {
    fn from(finding: Finding) -> Self {
        Self::Found(finding)
    }
}

/// An operand of a launch, or its scratch memory.
struct Part {
    role: Role,
    /// Addresses of its elements' bytes, in order, adjacent ranges merged.
    runs: Vec<Range<u64>>,
}

impl Part {
    fn is_read(&self) -> bool {
        matches!(self.role, Role::Input(_))
    }
}

/// An allocation that a launch touches, and its former contents.
struct Touched {
    block: Block,
    before: Vec<u8>,
}

impl Touched {
    /// The bytes at these addresses.
    fn within(&self, run: &Range<u64>) -> Option<Range<usize>> {
        let base = self.block.base.0;
        let inside = base <= run.start && run.end <= base + self.before.len() as u64;
        inside.then(|| (run.start - base) as usize..(run.end - base) as usize)
    }
}

/// Restores everything that a launch poisoned, except its final outputs; also if its kernel panics.
struct PutBack<'a> {
    memory: &'a Memory,
    touched: Vec<Touched>,
    written: Written,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        for t in &mut self.touched {
            for (run, new) in &self.written {
                if let Some(at) = t.within(run) {
                    t.before[at].copy_from_slice(new);
                }
            }
            // A device error in Drop cannot be returned; the next call reports it.
            _ = self.memory.device.upload(t.block.base, &t.before);
        }
    }
}

/// Runs a launch and keeps its outputs; memory is unchanged if it fails.
pub(super) fn run(memory: &Memory, launch: &Launch<'_>) -> Result<(), Stopped> {
    let parts = parts(launch);
    let mut back = PutBack { memory, touched: touched(memory, &parts)?, written: Written::new() };
    back.written = twice(memory, launch, &parts, &back.touched)?;
    drop(back);
    match memory.guards()? {
        None => Ok(()),
        Some(finding) => Err(finding.into()),
    }
}

fn parts(launch: &Launch<'_>) -> Vec<Part> {
    let inputs = launch.inputs.iter().enumerate().map(|(i, o)| Part { role: Role::Input(i), runs: runs(o) });
    let outputs =
        launch.outputs.iter().enumerate().map(|(j, o)| Part { role: Role::Output(j), runs: runs(o) });
    let start = launch.workspace.0;
    let scratch = (launch.workspace_bytes > 0)
        .then(|| Part { role: Role::Scratch, runs: one(start, start + launch.workspace_bytes as u64) });
    inputs.chain(outputs).chain(scratch).collect()
}

/// A single run.
fn one(start: u64, end: u64) -> Vec<Range<u64>> {
    std::iter::once(start..end).collect()
}

/// The addresses of an operand's elements.
fn runs(operand: &Operand) -> Vec<Range<u64>> {
    let (start, end) = operand.span();
    if start == end {
        return Vec::new();
    }
    if operand.layout.is_contiguous() {
        return one(start, end);
    }
    let size = operand.dtype.size() as u64;
    let at = |i| operand.base.0 + operand.layout.index_flat(i) as u64 * size;
    let mut starts: Vec<u64> = (0..operand.spec().shape.elements()).map(at).collect();
    starts.sort_unstable();
    let mut runs: Vec<Range<u64>> = Vec::new();
    for start in starts {
        match runs.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(start + size),
            _ => runs.push(start..start + size),
        }
    }
    runs
}

fn touched(memory: &Memory, parts: &[Part]) -> Result<Vec<Touched>, Stopped> {
    let mut blocks = BTreeMap::new();
    for part in parts {
        let (Some(first), Some(last)) = (part.runs.first(), part.runs.last()) else { continue };
        let Some(block) = memory.block(first.start, last.end) else {
            return Err(Finding::Unallocated { operand: part.role }.into());
        };
        blocks.insert(block.base, block);
    }
    let read = |block: Block| Ok(Touched { before: memory.read(block.base, block.capacity)?, block });
    blocks.into_values().map(read).collect()
}

/// Addresses and the bytes that a launch left there.
type Written = Vec<(Range<u64>, Vec<u8>)>;

/// Both runs; the outputs' bytes.
fn twice(
    memory: &Memory,
    launch: &Launch<'_>,
    parts: &[Part],
    touched: &[Touched],
) -> Result<Written, Stopped> {
    let first = once(memory, launch, parts, touched, PAINT[0])?;
    let second = once(memory, launch, parts, touched, PAINT[1])?;
    if let Some(at) = difference(&first, &second) {
        let again = once(memory, launch, parts, touched, PAINT[0])?;
        let unstable = difference(&first, &again);
        let (operand, element) = element(launch, unstable.unwrap_or(at));
        return Err(match unstable {
            Some(_) => Finding::Unstable { operand, element },
            None => Finding::Depends { operand, element },
        }
        .into());
    }
    Ok(first)
}

/// The first address at which two runs differ.
fn difference(one: &Written, other: &Written) -> Option<u64> {
    one.iter().zip(other).find_map(|((run, a), (_, b))| {
        a.iter().zip(b).position(|(a, b)| a != b).map(|at| run.start + at as u64)
    })
}

/// The output, and its element, that contain this address.
fn element(launch: &Launch<'_>, address: u64) -> (Role, usize) {
    for (j, o) in launch.outputs.iter().enumerate() {
        let size = o.dtype.size() as u64;
        let has = |&i: &usize| {
            let start = o.base.0 + o.layout.index_flat(i) as u64 * size;
            (start..start + size).contains(&address)
        };
        if let Some(i) = (0..o.spec().shape.elements()).find(has) {
            return (Role::Output(j), i);
        }
    }
    (Role::Output(0), 0)
}

/// One run over memory that is poisoned where the launch may not read; returns the bytes of its outputs.
fn once(
    memory: &Memory,
    launch: &Launch<'_>,
    parts: &[Part],
    touched: &[Touched],
    paint: u8,
) -> Result<Written, Stopped> {
    let mut images = Vec::with_capacity(touched.len());
    for t in touched {
        let mut image = vec![paint; t.before.len()];
        let reads = parts.iter().filter(|p| p.is_read()).flat_map(|p| &p.runs);
        for at in reads.filter_map(|r| t.within(r)) {
            image[at.clone()].copy_from_slice(&t.before[at]);
        }
        memory.device.upload(t.block.base, &image)?;
        images.push(image);
    }
    memory.device.launch(launch)?;
    let mut written = Written::new();
    for (t, image) in touched.iter().zip(&mut images) {
        // Also returns an index out of range that the kernel flagged, as this launch's.
        let after = memory.read(t.block.base, t.before.len())?;
        for part in parts.iter().filter(|p| !p.is_read()) {
            for (run, at) in part.runs.iter().filter_map(|r| Some((r, t.within(r)?))) {
                image[at.clone()].copy_from_slice(&after[at.clone()]);
                if part.role != Role::Scratch {
                    written.push((run.clone(), after[at].to_vec()));
                }
            }
        }
        // Remaining differences are not in outputs.
        if let Some(at) = image.iter().zip(&after).position(|(a, b)| a != b) {
            return Err(trespass(parts, t, t.block.base.0 + at as u64).into());
        }
    }
    Ok(written)
}

/// Describes a written byte: its operand, or the distance to the nearest one.
fn trespass(parts: &[Part], t: &Touched, address: u64) -> Finding {
    let holds = |p: &&Part| p.is_read() && p.runs.iter().any(|r| r.contains(&address));
    if let Some(p) = parts.iter().find(holds) {
        let byte = p.runs.first().map_or(0, |r| (address - r.start) as usize);
        return Finding::WroteInput { operand: p.role, byte };
    }
    let distance = |r: &Range<u64>| {
        if address < r.start { (r.start - address, "before") } else { (address + 1 - r.end, "behind") }
    };
    let near = parts.iter().flat_map(|p| p.runs.iter().map(move |r| (distance(r), p.role)));
    let nowhere = ((0, "in"), Role::Scratch);
    let ((distance, side), operand) = near.min_by_key(|((d, _), _)| *d).unwrap_or(nowhere);
    let region = if t.block.gave(address) { "in the same allocation" } else { "in the guard band" };
    Finding::WroteOutside { operand, distance, side, region }
}
