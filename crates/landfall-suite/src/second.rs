//! Gradients of gradients, in f64, against finite differences of the first ones.

use crate::case::{Case, Check, Random, Which, each, ensure};
use crate::device::On;
use crate::gradient::{cotangents, inputs, loss, unless_unbound, weights, within};
use crate::programs::write;
use landfall::ops::{Grad, Tested};
use landfall::{All, DType, Engine, Error, Graph, HostTensor, Program, State, StateSpec, Value, grad};
use std::sync::Arc;

/// Relative step of the differences, whose error is of its fourth power.
const STEP: f64 = 1e-3;
/// Largest error of a directional derivative, relative to the root of the sum of the squares of its terms.
const DIFFERENCE: f64 = 1e-6;
/// Differences over a step and over half of it that differ by more than this part stand at a kink.
const KINK: f64 = 1e-5;
/// Elements of the operands of a case at most: the differences take many runs.
const MOST: usize = 1500;

/// A program for the number `Σ weight · gradient` over all first gradients of a case, and for its gradients.
struct Second {
    program: Program,
    state: State,
    /// What may be moved, by name: the arguments of the op, and the cotangents.
    points: Vec<(String, HostTensor)>,
    /// Which of these the number depends on, and which first gradients there are.
    reached: Vec<bool>,
    firsts: Vec<usize>,
}

/// The gradient to a value; none where the loss does not depend on it.
fn slope(graph: &Graph, loss: Value, name: &str, of: Value) -> Check<Option<Value>> {
    match grad(graph, loss, &[(name.to_owned(), of)]) {
        Ok(found) => Ok(Some(found[0])),
        Err(Error::NoPath { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

impl Second {
    /// `None` where there is no first gradient.
    fn new(engine: &Engine, case: &Case) -> Check<Option<Self>> {
        let spec = Arc::new(StateSpec::new());
        let graph = Graph::new(&spec);
        let arguments = inputs(&graph, case);
        let outputs = graph.op_dyn(case.op.clone(), &arguments)?;
        let weights = weights(&graph, case);
        let loss = loss(&graph, &outputs, &weights)?;
        let mut points: Vec<(String, HostTensor)> = Vec::new();
        let mut values = Vec::new();
        for (i, (host, &value)) in case.inputs.iter().zip(&arguments).enumerate() {
            points.push((format!("input{i}"), host.clone()));
            values.push(value);
        }
        for (j, (host, weight)) in cotangents(case)?.into_iter().zip(&weights).enumerate() {
            let (Some(host), Some(weight)) = (host, *weight) else { continue };
            points.push((format!("cotangent{j}"), host));
            values.push(weight);
        }
        let mut number = graph.fill(DType::F64, [], 0.0)?;
        let mut firsts = Vec::new();
        // A gradient that is rounded to another dtype has no difference to compare with.
        for (i, &x) in arguments.iter().enumerate().filter(|(_, x)| graph.spec(**x).dtype == DType::F64) {
            let Some(found) = slope(&graph, loss, &format!("input{i}"), x)? else { continue };
            if graph.shape(x).elements() == 0 {
                continue;
            }
            graph.output(&format!("first{i}"), found);
            let shape = graph.shape(found);
            let weight = graph.input(&format!("weight{i}"), DType::F64, shape);
            let mut random = Random::new("weight", case.sample * 8 + i);
            points.push((format!("weight{i}"), HostTensor::from_fn(graph.spec(weight), |_| random.sign())));
            number = graph.add(number, graph.sum(graph.mul(found, weight)?, All)?)?;
            firsts.push(i);
        }
        if firsts.is_empty() {
            return Ok(None);
        }
        graph.output("number", number);
        let mut reached = Vec::new();
        for ((name, host), &value) in points.iter().zip(&values) {
            let wide = host.spec.dtype == DType::F64;
            let found = if wide { slope(&graph, number, name, value)? } else { None };
            if let Some(found) = found {
                graph.output(&format!("second {name}"), found);
            }
            reached.push(found.is_some());
        }
        let state = State::new(engine, &spec)?;
        let program = Program::compile(engine, &state, "second gradient", &graph)?;
        let mut all = Self { program, state, points, reached, firsts };
        (0..all.points.len()).try_for_each(|p| all.place(p, 0.0, &[]))?;
        Ok(Some(all))
    }

    /// Moves a point by so much of a direction.
    fn place(&mut self, point: usize, by: f64, direction: &[f64]) -> Check {
        let (name, host) = &self.points[point];
        let mut moved = host.clone();
        moved.data.iter_mut().zip(direction).for_each(|(x, d)| *x += by * d);
        Ok(unless_unbound(write(&mut self.program, name, &moved))?)
    }

    /// The number where a point is moved by so much.
    fn along(&mut self, point: usize, by: f64, direction: &[f64]) -> Check<f64> {
        self.place(point, by, direction)?;
        self.program.run(&mut self.state)?;
        let number = self.program.read::<f64>("number")?[0];
        self.place(point, 0.0, &[])?;
        Ok(number)
    }

    /// How far the gradient to a point is from the difference, in parts of its size. `None` at a kink.
    fn differs(&mut self, point: usize, case: &Case) -> Check<Option<f64>> {
        self.program.run(&mut self.state)?;
        let mut size = 0.0;
        for i in &self.firsts {
            size += self.program.read::<f64>(&format!("first{i}"))?.iter().map(|g| g.abs()).sum::<f64>();
        }
        let name = self.points[point].0.clone();
        let direction = within(
            &self.points[point].1.data,
            Random::new(&name, case.sample),
            case.sample.is_multiple_of(2),
        );
        let gradient = match self.reached[point] {
            true => self.program.read::<f64>(&format!("second {name}"))?,
            false => vec![0.0; direction.len()],
        };
        let terms = || gradient.iter().zip(&direction).map(|(g, d)| g * d);
        let got: f64 = terms().sum();
        let mut at = |by: f64| self.along(point, by, &direction);
        let (far, near) =
            ((at(STEP)? - at(-STEP)?) / (2.0 * STEP), (at(STEP / 2.0)? - at(-STEP / 2.0)?) / STEP);
        let want = (4.0 * near - far) / 3.0;
        let noise = 64.0 * f64::EPSILON * size.max(1.0) / STEP;
        let size = terms().map(|t| t * t).sum::<f64>().sqrt();
        if (near - far).abs() > KINK * (size + want.abs()) + noise || !want.is_finite() {
            return Ok(None);
        }
        let error = (got - want).abs();
        Ok(Some(if error == 0.0 { 0.0 } else { error / (size + noise / DIFFERENCE) }))
    }
}

/// Every op that has a gradient has one of its gradient: to each argument and to the cotangent, of the small samples in f64.
pub(crate) fn second(on: On, op: &dyn Tested) -> Check {
    let engine = on.engine()?;
    let (mut worst, mut checked, mut kinks) = (0.0_f64, 0, 0);
    each(op, Which::Light, |case| {
        if matches!(case.op.vjp(), Grad::None(_) | Grad::Zero)
            || (0..case.inputs.len()).any(|i| case.updates(i))
        {
            return Ok(());
        }
        let elements = case.specs().iter().chain(&case.outputs).map(|s| s.shape.elements()).sum::<usize>();
        if case.dtype != DType::F64 || elements > MOST {
            return Ok(());
        }
        let Some(mut second) = Second::new(&engine, case)? else { return Ok(()) };
        for point in 0..second.reached.len() {
            let (name, host) = second.points[point].clone();
            if host.spec.dtype != DType::F64 || host.data.is_empty() {
                continue;
            }
            let Some(ratio) = second.differs(point, case)? else {
                kinks += 1;
                continue;
            };
            checked += 1;
            worst = worst.max(ratio);
            ensure!(
                ratio <= DIFFERENCE,
                "the gradient of the gradients to {name} is {ratio:e} from its finite difference{}",
                if second.reached[point] { "" } else { " (no path leads to it)" }
            );
        }
        Ok(())
    })?;
    if checked + kinks > 0 {
        ensure!(checked > 0, "{}: all {kinks} directions stand at kinks", op.name());
        println!("second {}: {worst:.1e} from differences ({checked} directions, {kinks} kinks)", op.name());
    }
    Ok(())
}
