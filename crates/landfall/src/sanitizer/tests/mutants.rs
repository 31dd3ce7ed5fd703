//! Every op of the table times every fault.
//!
//! A mutant is a call with one fault. The checker of plans, the sanitizer, a kernel's own checks or the comparison with
//! the reference must notice it. What nobody notices must be shown to change no result, by the reference: then it is no
//! fault of that op.

use super::fault::{Fault, Saboteur, Which, tail};
use crate::case::{Case, Check, Failure, cases, ensure};
use crate::compare::{Worst, bound, close};
use crate::contract::{Alias, Cost, Coverage, Graph, StateSpec, Tested, Value};
use crate::device::steps::outline::{implied, outline};
use crate::engine::{Engine, Issue, Reuse, Tensor};
use crate::error::{Allocator, Error};
use crate::gpu::gpu;
use crate::lower::{Home, lower};
use crate::ops::table;
use crate::passes::optimise;
use crate::plan::{Place, assign, order, verify};
use crate::program::launch_list;
use crate::values::{Address, Block, DeviceKind, HostTensor, Operand, Spec};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// What an op is spoilt by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Alias,
    Tail,
    Fill,
    Shift,
    Swap,
    Edge,
}

const KINDS: [Kind; 6] = [Kind::Alias, Kind::Tail, Kind::Fill, Kind::Shift, Kind::Swap, Kind::Edge];

/// Who noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Catcher {
    Verifier,
    Edges,
    Sanitizer,
    Kernel,
    Reference,
}

/// Mutants by kind, and by who noticed them; what was no fault, with the reason.
#[derive(Default)]
struct Score {
    caught: BTreeMap<Kind, BTreeMap<Catcher, usize>>,
    missed: Vec<String>,
    /// Ops for which a kind of fault made at least one mutant.
    applied: BTreeMap<Kind, Vec<&'static str>>,
    none: BTreeMap<(Kind, &'static str), &'static str>,
}

impl Score {
    fn note(&mut self, op: &'static str, kind: Kind, what: &str, verdict: Verdict) {
        match verdict {
            Verdict::Caught(by) => {
                *self.caught.entry(kind).or_default().entry(by).or_default() += 1;
                let applied = self.applied.entry(kind).or_default();
                if applied.last() != Some(&op) {
                    applied.push(op);
                }
            }
            Verdict::NoFault(why) => _ = self.none.insert((kind, op), why),
            Verdict::Missed => self.missed.push(what.to_owned()),
        }
    }

    fn add(&mut self, other: Self) {
        for (kind, by) in other.caught {
            by.into_iter()
                .for_each(|(who, n)| *self.caught.entry(kind).or_default().entry(who).or_default() += n);
        }
        self.missed.extend(other.missed);
        other.applied.into_iter().for_each(|(kind, ops)| self.applied.entry(kind).or_default().extend(ops));
        self.none.extend(other.none);
    }

    fn print(&self, device: &str) {
        println!("mutants on {device}:");
        for kind in KINDS {
            let by = self.caught.get(&kind).cloned().unwrap_or_default();
            let ops = self.applied.get(&kind).map_or(0, Vec::len);
            println!("  {kind:?}: {} caught of {ops} ops, by {by:?}", by.values().sum::<usize>());
            let of_kind = self.none.iter().filter(|((k, op), _)| *k == kind && !self.has(kind, op));
            let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            of_kind.for_each(|((_, op), why)| reasons.entry(why).or_default().push(op));
            for (why, ops) in reasons {
                println!("    not applicable, {why}: {}", ops.join(", "));
            }
        }
        println!("  missed: {}", self.missed.len());
    }

    fn has(&self, kind: Kind, op: &&str) -> bool {
        self.applied.get(&kind).is_some_and(|ops| ops.iter().any(|o| o == op))
    }
}

/// What became of a mutant.
enum Verdict {
    Caught(Catcher),
    NoFault(&'static str),
    Missed,
}

/// The kind of a fault.
fn kind(fault: Fault) -> Kind {
    match fault {
        Fault::Alias { .. } => Kind::Alias,
        Fault::Tail { .. } => Kind::Tail,
        Fault::Fill { .. } => Kind::Fill,
        Fault::Shift(_) => Kind::Shift,
        Fault::Swap(..) => Kind::Swap,
    }
}

/// Cases whose mutants are run: each sample of an op in each dtype, where the reference is quick; at least the quickest.
fn chosen(op: &dyn Tested) -> Check<Vec<Case>> {
    let mut all = cases(op)?;
    let elements = |c: &Case| c.specs().iter().chain(&c.outputs).map(|s| s.shape.elements()).sum::<usize>();
    let work = |c: &Case| elements(c) + Cost::of(op, &c.specs()).flops;
    all.retain(|c| c.outputs.iter().any(|o| o.bytes() > 0));
    all.sort_by_cached_key(work);
    let quick = all.iter().filter(|c| work(c) <= QUICK).count();
    all.truncate(quick.max(1));
    Ok(all)
}

/// Elements and operations of a case that is quick.
const QUICK: usize = 5_000;

/// Every fault that a call can have, and the reason where a kind has none.
fn faults(case: &Case) -> (Vec<Fault>, Vec<(Kind, &'static str)>) {
    let (mut faults, mut none) = (Vec::new(), Vec::new());
    let specs = case.specs();
    let outputs: Vec<usize> = (0..case.outputs.len()).filter(|&j| case.outputs[j].bytes() > 0).collect();
    for &j in &outputs {
        for i in (0..specs.len()).filter(|&i| specs[i].bytes() > 0 && !case.updates(i)) {
            // The mutant must not leave the memory of the input, which is all there is.
            let legal = matches!(case.alias(j), Alias::InPlace(which) if which.contains(&i))
                && specs[i] == case.outputs[j];
            let shift = usize::from(legal);
            let room = case.outputs[j].bytes() + shift * case.outputs[j].dtype.size();
            if case.updated(j).is_none() && room <= specs[i].bytes() + shift * GUARDED {
                faults.push(Fault::Alias { output: j, input: i, shift });
            }
        }
        faults.push(Fault::Tail { output: j });
        if case.op.outputs()[j].coverage == Coverage::Zeroed {
            faults.push(Fault::Fill { output: j });
        }
        faults.push(Fault::Shift(Which::Output(j)));
    }
    for i in (0..specs.len()).filter(|&i| specs[i].bytes() > 0 && !case.updates(i)) {
        faults.push(Fault::Shift(Which::Input(i)));
    }
    for b in 0..specs.len() {
        let like = (0..b).filter(|&a| alike(specs[a], specs[b]) && specs[a].bytes() > 0);
        faults.extend(like.map(|a| Fault::Swap(Which::Input(a), Which::Input(b))));
    }
    let own: Vec<usize> = outputs.iter().copied().filter(|&j| case.updated(j).is_none()).collect();
    for (n, &b) in own.iter().enumerate() {
        let like = own[..n].iter().filter(|&&a| alike(case.outputs[a], case.outputs[b]));
        faults.extend(like.map(|&a| Fault::Swap(Which::Output(a), Which::Output(b))));
    }
    // Edges are dropped from plans and captured graphs, not from calls.
    for k in KINDS.into_iter().filter(|&k| k != Kind::Edge) {
        if !faults.iter().any(|&f| kind(f) == k) {
            none.push((
                k,
                match k {
                    Kind::Alias => "no input has room for an output that is not an update",
                    Kind::Tail | Kind::Shift => "it writes nothing",
                    Kind::Fill => "its outputs are written whole, nothing is left to fill",
                    Kind::Swap => "no two operands are of one dtype and size",
                    Kind::Edge => "a call has no edges",
                },
            ));
        }
    }
    (faults, none)
}

/// Whether two operands can lie in each other's memory.
fn alike(one: Spec, other: Spec) -> bool {
    one.dtype == other.dtype && one.bytes() == other.bytes()
}

/// Bytes behind every allocation that a shifted operand may reach.
const GUARDED: usize = 8;

/// A case's operands on a device.
struct Placed {
    tensors: Vec<Tensor>,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
}

fn place(engine: &Engine, case: &Case) -> Result<Placed, Error> {
    let mut tensors =
        case.inputs.iter().map(|h| engine.from_host(h)).collect::<Result<Vec<Tensor>, Error>>()?;
    let inputs: Vec<Operand> = tensors.iter().map(|t| *t.view().operand()).collect();
    let mut outputs = Vec::new();
    for (j, spec) in case.outputs.iter().enumerate() {
        outputs.push(match case.updated(j) {
            Some(i) => inputs[i],
            None => {
                let tensor = engine.empty(spec.dtype, spec.shape)?;
                let operand = *tensor.view().operand();
                tensors.push(tensor);
                operand
            }
        });
    }
    Ok(Placed { tensors, inputs, outputs })
}

/// The outputs of a call.
fn call(engine: &Engine, case: &Case) -> Result<Vec<HostTensor>, Error> {
    let op = case.op.as_ref();
    engine.reserve(engine.workspace(op, &case.specs())?)?;
    let placed = place(engine, case)?;
    engine.issue(op, &placed.inputs, &placed.outputs).map_err(|e| match e {
        Issue::Rule(rule) => rule.of(op.name(), &case.specs(), Some(engine.device()), None).into(),
        Issue::Fault(error) => error,
    })?;
    let mut own = case.inputs.len()..;
    let holder = |j: usize| case.updated(j).or_else(|| own.next()).unwrap_or(0);
    (0..case.outputs.len()).map(holder).map(|t| placed.tensors[t].read_host()).collect()
}

fn agrees(case: &Case, got: &[HostTensor], want: &[HostTensor]) -> bool {
    close(case, got, want, bound, &mut Worst::new()).is_ok()
}

/// Runs a mutant.
fn judge(engine: &Engine, case: &Case, fault: Fault) -> Check<Verdict> {
    let got = match call(engine, case) {
        Err(Error::Sanitizer(_)) => return Ok(Verdict::Caught(Catcher::Sanitizer)),
        Err(Error::Op(_) | Error::Index { .. }) => return Ok(Verdict::Caught(Catcher::Kernel)),
        Err(e) => return Err(e.into()),
        Ok(got) => got,
    };
    let want = case.reference()?;
    if !agrees(case, &got, &want) {
        return Ok(Verdict::Caught(Catcher::Reference));
    }
    Ok(harmless(case, fault, &want)?.map_or(Verdict::Missed, Verdict::NoFault))
}

/// Whether two tensors hold the same, bit for bit.
fn equal(one: &HostTensor, other: &HostTensor) -> bool {
    one.spec == other.spec && one.to_bytes() == other.to_bytes()
}

/// Why a fault changes no result of this case, by the reference; `None` where it should.
fn harmless(case: &Case, fault: Fault, want: &[HostTensor]) -> Check<Option<&'static str>> {
    // A reference trusts its indices: of ones that point elsewhere there is no result, and that is not the same.
    let with = |inputs: Vec<HostTensor>| -> Check<Option<Vec<HostTensor>>> {
        let case = case.with_inputs(inputs);
        let Ok(outputs) = catch_unwind(AssertUnwindSafe(|| case.reference())) else { return Ok(None) };
        Ok(Some(outputs?.iter().map(HostTensor::rounded).collect()))
    };
    let idle = |j: usize| case.updated(j).is_some_and(|i| equal(&want[j].rounded(), &case.inputs[i]));
    Ok(match fault {
        Fault::Alias { .. } => None,
        Fault::Shift(Which::Output(j)) => idle(j).then_some("the update leaves all as it was"),
        Fault::Tail { output } => {
            let Some(i) = case.updated(output) else { return Ok(None) };
            let (old, new) = (&case.inputs[i].data, &want[output].rounded().data);
            let spacing = case.outputs[output].dtype.epsilon();
            let near = |e: usize| old[e] == new[e] || (old[e] - new[e]).abs() <= spacing * new[e].abs();
            let kept = (tail(old.len())..old.len()).all(near);
            kept.then_some("the update of the last block is below the spacing of its numbers")
        }
        Fault::Fill { output } => {
            let zero = want[output].rounded().data.contains(&0.0);
            (!zero).then_some("nothing is left to fill")
        }
        Fault::Shift(Which::Input(i)) => {
            let mut same = true;
            for paint in [0xFF, 0x5A] {
                let h = &case.inputs[i];
                let size = h.spec.dtype.size();
                let mut bytes = h.to_bytes()[size..].to_vec();
                bytes.resize(h.spec.bytes(), paint);
                let mut inputs = case.inputs.clone();
                inputs[i] = HostTensor::from_bytes(h.spec, &bytes)?;
                same &= with(inputs)?.is_some_and(|got| agrees(case, &got, want));
            }
            same.then_some("the elements beside each other give the same result")
        }
        Fault::Swap(Which::Output(a), Which::Output(b)) => {
            let mut swapped: Vec<HostTensor> = want.iter().map(HostTensor::rounded).collect();
            swapped.swap(a, b);
            agrees(case, &swapped, want).then_some("both operands hold the same, but for rounding")
        }
        Fault::Swap(Which::Input(_), Which::Input(_)) if (0..want.len()).all(idle) => {
            Some("the update leaves all as it was")
        }
        Fault::Swap(Which::Input(a), Which::Input(b)) => {
            let mut inputs = case.inputs.clone();
            (inputs[a].data, inputs[b].data) = (case.inputs[b].data.clone(), case.inputs[a].data.clone());
            let Some(mut swapped) = with(inputs)? else { return Ok(None) };
            let output = |i: usize| (0..case.outputs.len()).find(|&j| case.updated(j) == Some(i));
            if let (Some(a), Some(b)) = (output(a), output(b)) {
                swapped.swap(a, b);
            }
            agrees(case, &swapped, want).then_some("the operands may be exchanged")
        }
        Fault::Swap(..) => None,
    })
}

/// A program around the call: its operands are made, and its results read. With the bytes of its slabs.
fn around(case: &Case) -> Check<(Graph, Vec<usize>)> {
    let mut spec = StateSpec::new();
    for (i, host) in case.inputs.iter().enumerate().filter(|(i, _)| case.updates(*i)) {
        spec.add(&format!("slab{i}"), host.spec.dtype, &[(format!("input{i}"), host.spec.shape)])?;
    }
    let graph = Graph::new(&Arc::new(spec));
    let mut values: Vec<Value> = Vec::new();
    for (i, host) in case.inputs.iter().enumerate() {
        let name = format!("input{i}");
        values.push(if case.updates(i) {
            graph.entry(&name)?
        } else {
            graph.copy(graph.input(&name, host.spec.dtype, host.spec.shape))?
        });
    }
    for (j, v) in graph.op_dyn(case.op.clone(), &values)?.into_iter().enumerate() {
        graph.output(&format!("output{j}"), graph.copy(v)?);
    }
    let slabs = graph.state_spec().slab_bytes();
    Ok((graph, slabs))
}

/// Outputs on inputs in the plan of a program, where the op forbids it: the checker must refuse every one.
fn plans(score: &mut Score, case: &Case) -> Check {
    let (graph, slabs) = around(case)?;
    let mut lowered = lower(&optimise(&graph, false), DeviceKind::Cpu, Reuse::Nothing)?;
    let mut plan = assign(&lowered, Reuse::Nothing);
    plan.cuts.clear();
    order(&mut lowered, &plan);
    verify(&lowered, &plan, &slabs).map_err(Error::from)?;
    let Some(k) = lowered.instructions.iter().position(|i| {
        i.op.name() == case.op.name()
            && i.outputs.len() == case.outputs.len()
            && i.inputs.len() == case.inputs.len()
    }) else {
        return Err(Failure(format!("{case}: the program does not hold the op")));
    };
    let i = lowered.instructions[k].clone();
    for (j, o) in i.outputs.iter().enumerate().filter(|(_, o)| o.spec().bytes() > 0) {
        for (n, a) in i.inputs.iter().enumerate().filter(|(_, a)| a.spec().bytes() > 0) {
            if case.updated(j) == Some(n) {
                continue;
            }
            let legal =
                matches!(case.alias(j), Alias::InPlace(which) if which.contains(&n)) && a.spec() == o.spec();
            let part = matches!(case.alias(j), Alias::Parts(_));
            if legal && o.spec().shape.elements() == 1 {
                // There is no way to lie across a single element.
                continue;
            }
            let mut bad = plan.clone();
            let Place { block, offset } = plan.places[a.value.0];
            let by = if legal || part { o.dtype.size() } else { 0 };
            bad.places[o.value.0] = Place { block, offset: offset + by };
            bad.arena += o.spec().bytes() + by;
            let mut lowered = lowered.clone();
            if matches!(block, Block::Arena) && case.updated(j).is_none() {
                lowered.values[o.value.0].home = Home::Arena;
            }
            order(&mut lowered, &bad);
            let verdict = match verify(&lowered, &bad, &slabs) {
                Err(_) => Verdict::Caught(Catcher::Verifier),
                Ok(()) => Verdict::Missed,
            };
            score.note(
                case.op.name(),
                Kind::Alias,
                &format!("{case}: plan with output {j} on input {n}"),
                verdict,
            );
        }
    }
    Ok(())
}

/// Edges dropped from the graph that a GPU would capture of a program around the call, one at a time, and the edges of its
/// plan one at a time: each must be named. Needs no GPU.
fn edges(score: &mut Score, case: &Case) -> Check {
    let (graph, slabs) = around(case)?;
    let device = DeviceKind::Cuda(0);
    let mut lowered = lower(&optimise(&graph, false), device, Reuse::Tight)?;
    let plan = assign(&lowered, Reuse::Tight);
    order(&mut lowered, &plan);
    verify(&lowered, &plan, &slabs).map_err(Error::from)?;
    // Blocks apart from each other, at addresses that nobody follows.
    let list = launch_list(&lowered, &plan, |block, offset| {
        let number = match block {
            Block::Arena => 1,
            Block::Slab(s) => 2 + 2 * s as u64,
            Block::Own(o) => 3 + 2 * o.0 as u64,
        };
        Address(number << 40).offset(offset)
    });
    let (steps, after) = outline(&list, device)?;
    implied(&list, &steps, &after)?;
    for step in 0..after.len() {
        for edge in 0..after[step].len() {
            let mut bad = after.clone();
            let dropped = bad[step].remove(edge);
            let inside = steps.iter().scan(0, |n, s| Some(std::mem::replace(n, *n + s.len())));
            if !inside.into_iter().any(|first| first == step) {
                // The steps of one launch are in order by themselves: the capture chains them.
                continue;
            }
            let verdict = match implied(&list, &steps, &bad) {
                Err(Error::Capture { .. }) => Verdict::Caught(Catcher::Edges),
                _ => Verdict::Missed,
            };
            score.note(
                case.op.name(),
                Kind::Edge,
                &format!("{case}: step {step} without step {dropped}"),
                verdict,
            );
        }
    }
    for k in 0..lowered.instructions.len() {
        for edge in 0..lowered.instructions[k].after.len() {
            let mut bad = lowered.clone();
            let dropped = bad.instructions[k].after.remove(edge);
            let verdict = match verify(&bad, &plan, &slabs) {
                Err(_) => Verdict::Caught(Catcher::Verifier),
                Ok(()) => Verdict::Missed,
            };
            score.note(
                case.op.name(),
                Kind::Edge,
                &format!("{case}: plan of {k} without {dropped}"),
                verdict,
            );
        }
    }
    Ok(())
}

/// The mutants of one op.
fn of_op(engine: &Engine, saboteur: &Saboteur, op: &dyn Tested, score: &mut Score) -> Check {
    for case in chosen(op)? {
        let name = case.op.name();
        saboteur.arm(None);
        let sound = call(engine, &case).map_err(|e| Failure(format!("{case}, without a fault: {e}")))?;
        ensure!(
            agrees(&case, &sound, &case.reference()?),
            "{case}, without a fault: not the reference's result"
        );
        let (faults, none) = faults(&case);
        none.into_iter().for_each(|(k, why)| score.note(name, k, "", Verdict::NoFault(why)));
        for fault in faults {
            saboteur.arm(Some(fault));
            let verdict = judge(engine, &case, fault)?;
            score.note(name, kind(fault), &format!("{case}: {fault:?}"), verdict);
        }
        plans(score, &case)?;
        edges(score, &case)?;
    }
    Ok(())
}

/// Takes ops from a queue until none is left.
fn worker(plain: &Engine, queue: &Mutex<std::vec::IntoIter<Arc<dyn Tested>>>) -> Check<Score> {
    let saboteur = Saboteur::new(Arc::clone(plain.handle()));
    let engine = Engine::over(Arc::<Saboteur>::clone(&saboteur)).sanitized(Allocator::NeverReuse);
    let mut score = Score::default();
    loop {
        let next = queue.lock().map_err(|e| Failure(e.to_string()))?.next();
        match next {
            Some(op) => of_op(&engine, &saboteur, op.as_ref(), &mut score)?,
            None => return Ok(score),
        }
    }
}

/// Every mutant of every op, by one worker for each engine.
fn all(engines: &[Engine]) -> Check {
    let queue = Mutex::new(table().into_iter());
    let scores = std::thread::scope(|scope| {
        let workers: Vec<_> = engines.iter().map(|e| scope.spawn(|| worker(e, &queue))).collect();
        workers
            .into_iter()
            .map(|w| w.join().map_err(|_| Failure("a worker panicked".to_owned()))?)
            .collect::<Check<Vec<_>>>()
    })?;
    let mut score = Score::default();
    scores.into_iter().for_each(|s| score.add(s));
    score.print(&engines[0].device().to_string());
    ensure!(
        score.missed.is_empty(),
        "{} mutants were missed:\n{}",
        score.missed.len(),
        score.missed.join("\n")
    );
    let dull = table().into_iter().find(|op| !score.has(Kind::Shift, &op.samples()[0].op.name()));
    ensure!(dull.is_none(), "no mutant of {dull:?}");
    Ok(())
}

#[test]
fn every_mutant_is_caught() -> Check {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let engines = (0..workers).map(|_| Engine::cpu_with_threads(2)).collect::<Result<Vec<_>, Error>>()?;
    all(&engines)
}

#[test]
fn every_mutant_is_caught_on_cuda() -> Check {
    gpu()?.map_or(Ok(()), |engine| all(&[engine]))
}

/// What the sanitizer says of faults that nobody else could see.
#[test]
fn findings_name_the_op_and_the_place() -> Check {
    let saboteur = Saboteur::new(Arc::clone(Engine::cpu_with_threads(1)?.handle()));
    let engine = Engine::over(Arc::<Saboteur>::clone(&saboteur)).sanitized(Allocator::NeverReuse);
    let case = cases(&crate::ops::reduce::softmax::Softmax::default())?
        .into_iter()
        .find(|c| c.dtype == crate::values::DType::F32 && c.outputs[0].shape.elements() > 64)
        .ok_or_else(|| Failure("softmax has no such sample".to_owned()))?;
    let last = tail(case.outputs[0].shape.elements());
    let found = [
        (Fault::Tail { output: 0 }, format!("element {last} of output 0 depends on")),
        (
            Fault::Shift(Which::Output(0)),
            "it wrote outside of its outputs: the byte 1 bytes behind output 0, in the guard band".to_owned(),
        ),
        (
            Fault::Alias { output: 0, input: 0, shift: 1 },
            "it wrote to input 0, which it may only read".to_owned(),
        ),
    ];
    for (fault, text) in found {
        saboteur.arm(Some(fault));
        let error = call(&engine, &case).err().map(|e| e.to_string()).unwrap_or_default();
        let start = format!("sanitizer: softmax({} on cpu), kernel ", case.specs()[0]);
        ensure!(error.starts_with(&start) && error.contains(&text), "{fault:?}: {error}");
    }
    Ok(())
}
