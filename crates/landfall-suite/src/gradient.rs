//! Gradients against finite differences of the reference in f64, and in f32 against f64.

use crate::case::{Case, Check, Failure, Random, Which, cases, each, ensure};
use crate::device::On;
use crate::programs::write;
use landfall::ops::{Body, Grad, Tested};
use landfall::walk::Made;
use landfall::{
    All, DType, Engine, Error, Graph, HostTensor, Program, Rule, Spec, State, StateSpec, Value, grad,
};
use std::sync::Arc;

/// Relative step of the differences.
const STEP: f64 = 1e-5;
/// Largest error of a directional derivative, relative to the root of the sum of the squares of its terms.
const DIFFERENCE: f64 = 1e-6;
/// Largest error of a gradient in f32, in ε of f32 of its largest element.
const SINGLE: f64 = 64.0;
/// One-sided differences that differ by more than this part stand at a kink.
const KINK: f64 = 1e-3;

/// What a case's loss gives for each input.
enum Flow {
    /// No cotangent reaches it.
    None,
    Gradient(HostTensor),
}

/// Gradients of `Σ_j sum(out_j · cotangent_j)` to each input, through a program.
fn gradients(engine: &Engine, case: &Case, cotangents: &Cotangents) -> Check<Vec<Flow>> {
    let spec = Arc::new(StateSpec::new());
    let graph = Graph::new(&spec);
    let inputs = inputs(&graph, case);
    let outputs = graph.op_dyn(case.op.clone(), &inputs)?;
    let weights: Vec<_> =
        weights(&graph, case).into_iter().zip(cotangents).map(|(w, c)| w.filter(|_| c.is_some())).collect();
    let loss = loss(&graph, &outputs, &weights)?;
    let mut flows = Vec::new();
    for (i, &x) in inputs.iter().enumerate() {
        match grad(&graph, loss, &[(format!("input{i}"), x)]) {
            // What is no float has no gradient, and is refused as a target.
            Err(Error::Op(_)) if !case.inputs[i].spec.dtype.is_float() => flows.push(false),
            Ok(found) => {
                let spec = graph.spec(found[0]);
                ensure!(spec == case.inputs[i].spec, "the gradient of input {i} is {spec}");
                graph.output(&format!("gradient{i}"), found[0]);
                flows.push(true);
            }
            Err(Error::NoPath { .. }) => flows.push(false),
            Err(e) => return Err(e.into()),
        }
    }
    let mut state = State::new(engine, &spec)?;
    let mut program = Program::compile(engine, &state, "gradient", &graph)?;
    for (i, host) in case.inputs.iter().enumerate() {
        // An input that no gradient needs is not part of the program.
        unless_unbound(write(&mut program, &format!("input{i}"), host))?;
    }
    for (j, host) in cotangents.iter().enumerate() {
        if let Some(host) = host {
            unless_unbound(write(&mut program, &format!("cotangent{j}"), host))?;
        }
    }
    program.run(&mut state)?;
    let flow = |(i, &flows): (usize, &bool)| {
        if flows { Ok(Flow::Gradient(program.read_host(&format!("gradient{i}"))?)) } else { Ok(Flow::None) }
    };
    flows.iter().enumerate().map(flow).collect()
}

pub(crate) fn unless_unbound(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::NoBinding { .. }) => Ok(()),
        other => other,
    }
}

pub(crate) fn inputs(graph: &Graph, case: &Case) -> Vec<Value> {
    let named = case.inputs.iter().enumerate();
    named.map(|(i, h)| graph.input(&format!("input{i}"), h.spec.dtype, h.spec.shape)).collect()
}

/// Inputs of the program for the cotangents of the float outputs.
pub(crate) fn weights(graph: &Graph, case: &Case) -> Vec<Option<Value>> {
    let outputs = case.outputs.iter().enumerate();
    outputs
        .map(|(j, o)| o.dtype.is_float().then(|| graph.input(&format!("cotangent{j}"), o.dtype, o.shape)))
        .collect()
}

/// The sum, in f64, of the float outputs times their weights, where they have one.
pub(crate) fn loss(graph: &Graph, outputs: &[Value], weights: &[Option<Value>]) -> Check<Value> {
    let mut loss = graph.fill(DType::F64, [], 0.0)?;
    for (&out, weight) in outputs.iter().zip(weights) {
        let Some(weight) = *weight else { continue };
        let wide = graph.cast(graph.mul(out, weight)?, DType::F64)?;
        let axes: Vec<usize> = (0..graph.shape(out).rank()).collect();
        loss = graph.add(loss, graph.sum(wide, &axes)?)?;
    }
    Ok(loss)
}

/// Cotangents of the float outputs.
pub(crate) type Cotangents = [Option<HostTensor>];

/// Fixed cotangents for the float outputs of a case: 0 where an output is not finite.
pub(crate) fn cotangents(case: &Case) -> Check<Vec<Option<HostTensor>>> {
    let outputs = case.reference()?;
    let fill = |(j, &spec): (usize, &Spec)| {
        if !spec.dtype.is_float() {
            return Ok(None);
        }
        let mut random = Random::new("cotangent", case.sample * 8 + j);
        let data: Vec<f64> =
            outputs[j].data.iter().map(|x| if x.is_finite() { random.sign() } else { 0.0 }).collect();
        // Rounded to the coarsest dtype of the comparison, so that all see the same.
        Ok(Some(
            HostTensor::from_fn(Spec::new(DType::F32, spec.shape), |i| data[i]).rounded().cast(spec.dtype),
        ))
    };
    case.outputs.iter().enumerate().map(fill).collect()
}

/// The loss through the reference.
fn reference(case: &Case, cotangents: &Cotangents) -> f64 {
    let outputs = case.op.reference(&case.inputs);
    let terms = outputs.iter().zip(cotangents).filter_map(|(o, c)| Some((o, c.as_ref()?)));
    let product = |(&a, &b): (&f64, &f64)| if b == 0.0 { 0.0 } else { a * b };
    terms.map(|(o, c)| o.data.iter().zip(&c.data).map(product).sum::<f64>()).sum()
}

/// A direction to walk input `i` in: all of its elements, or a few of many.
fn direction(case: &Case, i: usize, trial: usize) -> Vec<f64> {
    let random = Random::new("direction", case.sample * 64 + i * 8 + trial);
    within(&case.inputs[i].data, random, trial == 0)
}

/// A step for each element, or for a few of many, about as long as it.
pub(crate) fn within(x: &[f64], mut random: Random, all: bool) -> Vec<f64> {
    let typical =
        0.01 * (x.iter().filter(|x| x.is_finite()).map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt();
    let keep = if all { 1.0 } else { 16.0 / x.len() as f64 };
    let step = |x: &f64| {
        let (s, kept) = (random.sign(), random.uniform() < keep);
        if kept && x.is_finite() { s * x.abs().max(typical) } else { 0.0 }
    };
    x.iter().map(step).collect()
}

/// The loss at a distance along a direction.
fn along(case: &Case, i: usize, d: &[f64], t: f64, cotangents: &Cotangents) -> f64 {
    let mut moved = case.clone();
    moved.inputs[i].data.iter_mut().zip(d).for_each(|(x, d)| *x += t * d);
    reference(&moved, cotangents)
}

/// Compares one directional derivative. `None` at a kink.
fn differs(case: &Case, i: usize, trial: usize, g: Option<&HostTensor>, c: &Cotangents) -> Option<f64> {
    let d = direction(case, i, trial);
    let at = |t: f64| along(case, i, &d, t, c);
    let (here, far, near) = (at(0.0), [at(-STEP), at(STEP)], [at(-STEP / 2.0), at(STEP / 2.0)]);
    let difference = (near[1] - near[0]) / STEP;
    let terms: Vec<f64> = match g {
        Some(g) => g.data.iter().zip(&d).map(|(g, d)| g * d).collect(),
        None => vec![0.0],
    };
    let size = terms.iter().map(|t| t * t).sum::<f64>().sqrt();
    // Rounding of the loss, which the difference divides by the step.
    let noise = 4.0 * f64::EPSILON * (here.abs() + far[0].abs() + far[1].abs()) / STEP;
    let sides = [(far[1] - here) / STEP, (here - far[0]) / STEP, (far[1] - far[0]) / (2.0 * STEP)];
    let bend = (sides[0] - sides[1]).abs().max((sides[2] - difference).abs());
    if bend > KINK * (size + difference.abs()) + noise {
        return None;
    }
    let coarse = case.inputs.iter().map(|h| h.spec.dtype).chain(case.outputs.iter().map(|o| o.dtype));
    let epsilon = coarse.filter(|d| d.is_float()).map(DType::epsilon).fold(0.0, f64::max);
    let unit = size + noise / DIFFERENCE + 16.0 * epsilon / DIFFERENCE * size;
    let error = (terms.iter().sum::<f64>() - difference).abs();
    Some(if error == 0.0 { 0.0 } else { error / unit })
}

/// Every float input of every sample in f64 against finite differences, and f32 against f64; no gradient where there
/// is none.
pub(crate) fn gradient(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    let (mut worst, mut single, mut checked, mut kinks) = (0.0_f64, 0.0_f64, 0, 0);
    let mut differentiable = false;
    let all = cases(op)?;
    each(op, Which::All, |case| {
        match case.op.vjp() {
            Grad::None(why) => return none(case, why),
            Grad::Zero => return zero(case),
            Grad::Rule(_) | Grad::Keeping { .. } | Grad::FromBody => {}
        }
        if case.outputs.iter().all(|o| !o.dtype.is_float()) {
            return Ok(());
        }
        let lone = all.iter().filter(|c| c.sample == case.sample).count() == 1;
        if case.dtype != DType::F64 && !lone {
            return Ok(());
        }
        let c = cotangents(case)?;
        let flows = gradients(&engine, case, &c)?;
        for (i, flow) in flows.iter().enumerate() {
            let float = case.inputs[i].spec.dtype.is_float();
            let g = match flow {
                Flow::None if !float => continue,
                Flow::None => None,
                Flow::Gradient(_) if !float => return Err(format!("input {i} has a gradient").into()),
                Flow::Gradient(g) => Some(g),
            };
            differentiable |= !case.inputs[i].data.is_empty();
            if case.inputs[i].data.is_empty() || case.outputs.iter().all(|o| o.shape.elements() == 0) {
                continue;
            }
            // Each costs seven calls of the reference.
            for trial in 0..if case.large() { 1 } else { 2 } {
                let Some(ratio) = differs(case, i, trial, g, &c) else {
                    kinks += 1;
                    continue;
                };
                checked += 1;
                worst = worst.max(ratio);
                ensure!(
                    ratio <= DIFFERENCE,
                    "the gradient of input {i} is {ratio:e} from its finite difference{}",
                    if g.is_none() { " (the rule gives none)" } else { "" }
                );
            }
        }
        let narrow = all.iter().find(|c| c.sample == case.sample && c.dtype == DType::F32);
        let Some(narrow) = narrow.filter(|_| case.dtype == DType::F64) else { return Ok(()) };
        let wide = case
            .with_inputs(narrow.inputs.iter().zip(&case.inputs).map(|(n, w)| n.cast(w.spec.dtype)).collect());
        let (small, large) =
            (gradients(&engine, narrow, &cotangents(narrow)?)?, gradients(&engine, &wide, &c)?);
        // A function that saturates has tiny slopes 1 − y²: its gradient is as exact as the cotangent, not as itself.
        let floor = if matches!(case.op.body(), Body::Pointwise(_)) { 1.0 } else { 0.0 };
        for (i, pair) in small.iter().zip(&large).enumerate() {
            let (Flow::Gradient(s), Flow::Gradient(l)) = pair else { continue };
            let ratio = apart(s, l, floor);
            single = single.max(ratio);
            ensure!(ratio <= SINGLE, "the gradient of input {i} in f32 is {ratio} ε from that in f64");
        }
        Ok(())
    })?;
    if differentiable {
        ensure!(checked > 0, "{}: all {kinks} directions stand at kinks", op.name());
        println!(
            "gradient {}: {worst:.1e} from differences, {single:.2} ε in f32 ({checked} directions, {kinks} kinks)",
            op.name()
        );
    }
    Ok(())
}

/// The largest distance of two gradients in ε of f32 of the largest element, or of `floor` where that is larger.
fn apart(small: &HostTensor, large: &HostTensor, floor: f64) -> f64 {
    let finite = |x: &&f64| x.is_finite();
    let size = large.data.iter().filter(finite).map(|x| x.abs()).fold(floor, f64::max);
    let far = |(s, l): (&f64, &f64)| {
        let same = s == l || (s.is_nan() && l.is_nan()) || l.abs() > f64::from(f32::MAX);
        if same { 0.0 } else { (s - l).abs() / (DType::F32.epsilon() * size + f64::from(f32::MIN_POSITIVE)) }
    };
    small.data.iter().zip(&large.data).map(far).fold(0.0, f64::max)
}

/// The gradient of an op that is constant between its steps is zeros: no node is made for it but those.
fn zero(case: &Case) -> Check {
    let graph = Graph::new(&Arc::new(StateSpec::new()));
    let inputs = inputs(&graph, case);
    let outputs = graph.op_dyn(case.op.clone(), &inputs)?;
    let mut total = graph.fill(DType::F64, [], 0.0)?;
    for &out in &outputs {
        total = graph.add(total, graph.sum(graph.cast(out, DType::F64)?, All)?)?;
    }
    for (&x, host) in inputs.iter().zip(&case.inputs).filter(|(_, host)| host.spec.dtype.is_float()) {
        let found = grad(&graph, total, &[("x".to_owned(), x)])?[0];
        let Made::Result { op, .. } = graph.made(found)? else {
            return Err(Failure("the gradient is no result of an op".to_owned()));
        };
        let spec = graph.spec(found);
        ensure!(spec == host.spec, "the gradient is {spec}, not {}", host.spec);
        ensure!(op.name() == "fill" && format!("{op:?}").contains("value: 0.0"), "the gradient is by {op:?}");
    }
    Ok(())
}

/// Asking an op without a gradient for one names it and says why.
fn none(case: &Case, why: &str) -> Check {
    let graph = Graph::new(&Arc::new(StateSpec::new()));
    let inputs =
        if (0..case.inputs.len()).any(|i| case.updates(i)) { Vec::new() } else { inputs(&graph, case) };
    let float = case.inputs.iter().position(|h| h.spec.dtype.is_float());
    let (Some(&x), Some(_)) =
        (float.and_then(|i| inputs.get(i)), case.outputs.iter().find(|o| o.dtype.is_float()))
    else {
        return Ok(());
    };
    let outputs = graph.op_dyn(case.op.clone(), &inputs)?;
    let loss = loss(&graph, &outputs, &weights(&graph, case))?;
    match grad(&graph, loss, &[("weights".to_owned(), x)]) {
        Err(Error::Gradient { parameter, cause, .. }) => {
            let rule = matches!(cause.rule, Rule::NoGradient { why: w } if w == why);
            let told =
                parameter == "weights" && cause.op == case.op.name() && cause.to_string().contains(why);
            ensure!(rule && told, "the error is {cause}");
            Ok(())
        }
        Err(e) => Err(Failure(format!("the error is {e}"))),
        Ok(_) => Err(Failure("there is a gradient, but the op says that it has none".to_owned())),
    }
}
