//! Segments: runs of instructions that each keep to a part of the rows. On a GPU one kernel does them part by part, without waiting
//! for the other parts in between ([`crate::kernel::cuda::segment`]).
//!
//! An instruction can be a member if its op says along which axes its results are independent ([`Op::independent`]), and if every
//! byte that it has in common with another member is of the same part in both. Nothing here knows an op.

use super::{Arg, Instruction, Lowered, root};
use crate::contract::{Kernel, check};
use crate::device::steps::parts::Cut;
use crate::error::Error;
use crate::kernel::cuda::segment::MOST_ADDRESSES;
use crate::values::{Address, DeviceKind, Operand, Rule, Spec, StoredId};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A run of instructions that one kernel does by parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its first instruction, and how many there are.
    pub first: usize,
    /// See `first`.
    pub count: usize,
    /// Parts into which its operands are cut.
    pub parts: usize,
}

impl Segment {
    /// Its instructions.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// Numbers of parts that are tried for one segment.
const TRIED: usize = 4;
/// Bytes at most of an operand that is read whole, and of a part of one: what is larger is faster done by a kernel of its own, whose
/// blocks share it.
const WHOLE: usize = 128 << 10;
const OWN: usize = 64 << 10;
/// Instructions from its first one on in which members of a segment are looked for: the time of a plan grows with it.
const WINDOW: usize = 512;
/// Members at least.
const LEAST: usize = 2;

/// Bytes that an instruction touches, as addresses that no two values share, and whether it writes them.
#[derive(Debug, Clone)]
struct Touch {
    bytes: Range<u64>,
    writes: bool,
}

impl Touch {
    fn meets(&self, other: &Self) -> bool {
        (self.writes || other.writes)
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }
}

/// What a part touches: part p the same bytes, `step` times p further on.
#[derive(Debug, Clone)]
struct PartTouch {
    first: Touch,
    step: u64,
}

impl PartTouch {
    /// Whether bytes that both touch, of which one writes, are of one part in both: the first parts lie in one window as long as the step.
    fn keeps_apart(&self, other: &Self, whole: bool) -> bool {
        let (a, b) = (&self.first.bytes, &other.first.bytes);
        let window = a.end.max(b.end) - a.start.min(b.start);
        !whole || self.step == other.step && self.step > 0 && window <= self.step
    }
}

/// A member: what its parts touch, whole and by part, its kernel, and how many addresses it has.
struct Candidate {
    parts: Vec<PartTouch>,
    kernel: &'static Kernel,
    addresses: usize,
}

struct Finder<'a> {
    lowered: &'a Lowered,
    device: DeviceKind,
    /// Numbers of parts that a segment may have.
    parts: Range<usize>,
    touches: Vec<Vec<Touch>>,
    known: HashMap<(usize, usize), Option<Candidate>>,
}

/// Finds segments, brings their instructions together, and has them run by kernels that a segment can call.
///
/// # Errors
/// A rule that a half of an op violates, which only a wrong op can cause.
pub(crate) fn segment(lowered: &mut Lowered, device: DeviceKind, parts: Range<usize>) -> Result<(), Error> {
    if !matches!(device, DeviceKind::Cuda(_)) || lowered.repeat.times > 1 {
        return Ok(());
    }
    lowered.grouped = true;
    // What can be taken apart stays so only where a segment has some of it.
    let mut apart: HashSet<usize> = (0..lowered.instructions.len()).collect();
    loop {
        let (halves, from) = taken_apart(lowered, &apart, device)?;
        let found = found(&halves, device, parts.clone());
        let members = found.segments.iter().flat_map(|s| &found.order[s.range()]);
        let used: HashSet<usize> = members.map(|&n| from[n]).filter(|n| is_apart(&from, *n)).collect();
        if apart.iter().all(|n| !is_apart(&from, *n) || used.contains(n)) {
            *lowered = ordered(halves, found);
            return Ok(());
        }
        apart = used;
    }
}

/// Whether an instruction became several.
fn is_apart(from: &[usize], n: usize) -> bool {
    from.partition_point(|&f| f <= n) - from.partition_point(|&f| f < n) > 1
}

/// The program with these instructions as several where their ops can be taken apart, and the number of the instruction that each
/// was.
fn taken_apart(
    lowered: &Lowered,
    these: &HashSet<usize>,
    device: DeviceKind,
) -> Result<(Lowered, Vec<usize>), Error> {
    let mut out = lowered.clone();
    out.instructions.clear();
    let mut from = Vec::new();
    for (n, instruction) in lowered.instructions.iter().enumerate() {
        let halves = if these.contains(&n) { instruction.op.apart() } else { Vec::new() };
        if halves.is_empty() {
            out.instructions.push(instruction.clone());
            from.push(n);
        }
        let (arguments, _) = specs(instruction);
        for (op, results) in halves {
            let fail = |rule: Rule| Error::from(rule.of(op.name(), &arguments, Some(device), instruction.at));
            let kernel = check::kernel(op.as_ref(), device, &arguments).map_err(fail)?;
            let workspace = (kernel.workspace)(op.as_ref(), &arguments);
            let outputs = instruction.outputs[results].to_vec();
            out.instructions.push(Instruction { op, kernel, outputs, workspace, ..instruction.clone() });
            from.push(n);
        }
    }
    Ok((out, from))
}

/// Instructions in a new order, with the segments in it.
struct Order {
    order: Vec<usize>,
    segments: Vec<Segment>,
    /// The kernels of members.
    kernels: HashMap<usize, &'static Kernel>,
}

fn found(lowered: &Lowered, device: DeviceKind, parts: Range<usize>) -> Order {
    let touches = lowered.instructions.iter().map(|i| touches(lowered, i)).collect();
    let mut finder = Finder { lowered, device, parts, touches, known: HashMap::new() };
    let mut out = Order { order: Vec::new(), segments: Vec::new(), kernels: HashMap::new() };
    let mut rest: Vec<usize> = (0..lowered.instructions.len()).collect();
    while let Some(&start) = rest.first() {
        let Some(best) = finder.best(start, &rest) else {
            out.order.push(start);
            rest.remove(0);
            continue;
        };
        for &m in &best.members {
            if let Some(Some(c)) = finder.known.get(&(m, best.parts)) {
                out.kernels.insert(m, c.kernel);
            }
        }
        out.order.extend(&best.before);
        out.segments.push(Segment { first: out.order.len(), count: best.members.len(), parts: best.parts });
        out.order.extend(&best.members);
        let done: HashSet<usize> = best.before.iter().chain(&best.members).copied().collect();
        rest.retain(|n| !done.contains(n));
    }
    out
}

/// The program in this order.
fn ordered(mut lowered: Lowered, found: Order) -> Lowered {
    let mut all: Vec<Option<Instruction>> =
        std::mem::take(&mut lowered.instructions).into_iter().map(Some).collect();
    for n in found.order {
        let Some(mut instruction) = all[n].take() else { continue };
        if let Some(kernel) = found.kernels.get(&n) {
            instruction.kernel = kernel;
            instruction.workspace = 0;
        }
        lowered.instructions.push(instruction);
    }
    lowered.segments = found.segments;
    lowered
}

/// A run that was found: members, and instructions that must come before them although they stand between them.
struct Found {
    parts: usize,
    members: Vec<usize>,
    before: Vec<usize>,
}

impl Finder<'_> {
    /// The longest segment that begins with an instruction; of equals the one of the most parts.
    fn best(&mut self, start: usize, rest: &[usize]) -> Option<Found> {
        let instruction = &self.lowered.instructions[start];
        let (inputs, outputs) = specs(instruction);
        let axes = instruction.op.independent(&inputs, &outputs)?;
        let of = |(s, &a): (&Spec, &usize)| s.shape.dims()[..a].iter().product::<usize>();
        let count = inputs.iter().chain(&outputs).zip(&axes).map(of).max()?;
        let numbers: Vec<usize> =
            self.parts.clone().rev().filter(|&p| p > 1 && count.is_multiple_of(p)).take(TRIED).collect();
        let mut best: Option<Found> = None;
        for parts in numbers {
            if self.candidate(start, parts).is_none() {
                continue;
            }
            let found = self.grow(start, rest, parts);
            if found.members.len() >= LEAST
                && best.as_ref().is_none_or(|b| found.members.len() > b.members.len())
            {
                best = Some(found);
            }
        }
        best
    }

    /// The members of a segment of so many parts, from an instruction on.
    fn grow(&mut self, start: usize, rest: &[usize], parts: usize) -> Found {
        let (mut members, mut between, mut later): (Vec<usize>, Vec<usize>, Vec<usize>) = Default::default();
        let mut addresses = 0;
        for &n in rest.iter().take(WINDOW) {
            let follows = |of: &[usize]| of.iter().any(|&m| meet(&self.touches[m], &self.touches[n]));
            let waits = follows(&later);
            let after = follows(&members);
            let candidate = if waits { None } else { self.candidate(n, parts) };
            let joins = candidate.is_some_and(|(own, count)| {
                addresses + count <= MOST_ADDRESSES && self.apart(n, &own, &members, parts)
            });
            if joins {
                addresses += self.candidate(n, parts).map_or(0, |c| c.1);
                members.push(n);
            } else if waits || after {
                later.push(n);
            } else {
                between.push(n);
            }
        }
        // What stands behind the last member may stay there.
        let last = members.last().copied().unwrap_or(start);
        between.retain(|&n| n < last);
        Found { parts, members, before: between }
    }

    /// Whether the parts of an instruction keep apart from other parts of each member, and from each other.
    fn apart(&self, n: usize, own: &[PartTouch], members: &[usize], parts: usize) -> bool {
        let pairs = |others: &[PartTouch], whole: (usize, usize)| {
            own.iter().enumerate().all(|(i, a)| {
                others.iter().enumerate().all(|(j, b)| {
                    let meets = self.touches[whole.0][i].meets(&self.touches[whole.1][j]);
                    a.keeps_apart(b, meets)
                })
            })
        };
        pairs(own, (n, n))
            && members.iter().all(|&m| match self.known.get(&(m, parts)) {
                Some(Some(c)) => pairs(&c.parts, (n, m)),
                Some(None) | None => false,
            })
    }

    /// What the parts of an instruction touch, and its addresses, if it can be a member.
    fn candidate(&mut self, n: usize, parts: usize) -> Option<(Vec<PartTouch>, usize)> {
        if !self.known.contains_key(&(n, parts)) {
            let made = candidate(self.lowered, n, parts, self.device);
            self.known.insert((n, parts), made);
        }
        self.known[&(n, parts)].as_ref().map(|c| (c.parts.clone(), c.addresses))
    }
}

fn meet(a: &[Touch], b: &[Touch]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.meets(y)))
}

/// Specs of the inputs and of the outputs.
pub(crate) fn specs(instruction: &Instruction) -> (Vec<Spec>, Vec<Spec>) {
    let of = |args: &[Arg]| args.iter().map(Arg::spec).collect();
    (of(&instruction.inputs), of(&instruction.outputs))
}

/// An address for each value, aligned as values are.
fn address(lowered: &Lowered, value: StoredId) -> Address {
    let (root, at) = root(lowered, value);
    Address(((root.0 as u64 + 1) << 40) + at as u64)
}

fn operand(lowered: &Lowered, arg: &Arg) -> Operand {
    Operand { base: address(lowered, arg.value), dtype: arg.dtype, layout: arg.layout }
}

fn touches(lowered: &Lowered, instruction: &Instruction) -> Vec<Touch> {
    let of = |arg: &Arg, writes| {
        let (start, end) = operand(lowered, arg).span();
        Touch { bytes: start..end, writes }
    };
    let inputs = instruction.inputs.iter().map(|a| of(a, false));
    inputs.chain(instruction.outputs.iter().map(|a| of(a, true))).collect()
}

fn candidate(lowered: &Lowered, n: usize, parts: usize, device: DeviceKind) -> Option<Candidate> {
    let instruction = &lowered.instructions[n];
    let op = instruction.op.as_ref();
    let (arguments, results) = specs(instruction);
    let axes = op.independent(&arguments, &results)?;
    let inputs: Vec<Operand> = instruction.inputs.iter().map(|a| operand(lowered, a)).collect();
    let outputs: Vec<Operand> = instruction.outputs.iter().map(|a| operand(lowered, a)).collect();
    let cut = |kernel| Cut { op, kernel, inputs: &inputs, outputs: &outputs, axes: &axes, parts };
    let (first, second) = (cut(instruction.kernel).operands(0)?, cut(instruction.kernel).operands(1)?);
    let bytes = |o: &Operand| {
        let (start, end) = o.span();
        (end - start) as usize
    };
    let small = first.iter().zip(&axes).all(|(o, &a)| bytes(o) <= if a == 0 { WHOLE } else { OWN });
    if !small {
        return None;
    }
    let regular = |kernel: &'static Kernel| {
        let free = (kernel.workspace)(op, &arguments) == 0;
        free.then(|| cut(kernel).members(device, 0..parts)).flatten().map(|m| (kernel, m))
    };
    // A choice of the tuner stays.
    let own = check::kernel(op, device, &arguments).is_ok_and(|k| k.name == instruction.kernel.name);
    let others = check::kernels(op, device, &arguments).filter(|_| own);
    let (kernel, members) = std::iter::once(instruction.kernel).chain(others).find_map(regular)?;
    let touch = |((a, b), writes): ((&Operand, &Operand), bool)| {
        let ((start, end), (next, _)) = (a.span(), b.span());
        PartTouch { first: Touch { bytes: start..end, writes }, step: next - start }
    };
    let writes = (0..first.len()).map(|i| i >= inputs.len());
    let touched = first.iter().zip(&second).zip(writes).map(touch).collect();
    Some(Candidate { parts: touched, kernel, addresses: members.iter().map(|m| m.addresses().count()).sum() })
}
