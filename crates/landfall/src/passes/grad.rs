//! Reverse-mode differentiation, graph to graph.

use crate::contract::{Body, Grad, Graph, Inner, Origin, Value, View, Vjp, rules};
use crate::error::Error;
use crate::ops;
use crate::values::{OpError, Rule, Shape};
use std::collections::HashMap;
use std::panic::Location;

/// Gradient of a scalar `loss` with respect to each of the named values, in order: inputs, entries of the state, results of ops,
/// views, the loss itself, any of them twice.
///
/// Each is a total derivative: what the loss changes by when the value does, and with it all that is made of it, other values of the
/// list among it. Equal ops on the same arguments are one value ([`Graph::op`]), and so are equal views. Where the loss depends on a
/// value through steps, truth values or integers alone, the gradient is zeros. Gradients have gradients, to any order.
///
/// ```
/// use landfall::{All, DType, Engine, Graph, Program, State, StateSpec, grad};
/// let (engine, spec) = (Engine::cpu()?, std::sync::Arc::new(StateSpec::new()));
/// let g = Graph::new(&spec);
/// let x = g.input("x", DType::F32, [2]);
/// let h = g.square(x)?;
/// let loss = g.sum(g.mul(h, x)?, All)?; // Σ x³
/// let found = grad(&g, loss, &[("h".to_owned(), h), ("x".to_owned(), x)])?;
/// g.output("of h", found[0]);
/// g.output("of x", found[1]);
/// let mut state = State::new(&engine, &spec)?;
/// let mut program = Program::compile(&engine, &state, "gradients", &g)?;
/// program.write("x", &[1.0f32, 2.0])?;
/// program.run(&mut state)?;
/// assert_eq!(program.read::<f32>("of h")?, [1.0, 2.0]); // x
/// assert_eq!(program.read::<f32>("of x")?, [3.0, 12.0]); // 3x², with the path through h
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// [`Error::Loss`] if the loss is not a floating-point scalar; [`Error::NoPath`] if the loss does not depend on one of
/// the values; [`Error::Gradient`] if the path leads through an op without a gradient; a value that is not of a float dtype.
#[track_caller]
pub fn grad(graph: &Graph, loss: Value, wrt: &[(String, Value)]) -> Result<Vec<Value>, Error> {
    let at = Location::caller();
    graph.on_behalf(at, || gradients(graph, loss, wrt, at))
}

fn gradients(
    graph: &Graph,
    loss: Value,
    wrt: &[(String, Value)],
    at: &'static Location<'static>,
) -> Result<Vec<Value>, Error> {
    let values: Vec<Value> = std::iter::once(loss).chain(wrt.iter().map(|w| w.1)).collect();
    graph.sound("grad", &values, at)?;
    rules::float(&graph.specs(&values), &(1..values.len()).collect::<Vec<_>>())
        .map_err(|rule| rule.of("grad", &graph.specs(&values), None, Some(at)))?;
    let spec = graph.spec(loss);
    if spec.shape != Shape::SCALAR || !spec.dtype.is_float() {
        return Err(Error::Loss { spec, at: Some(at) });
    }
    let first = graph.inner.borrow().nodes.len();
    graph.inner.borrow_mut().backward.get_or_insert(first);
    let seed = graph.fill(spec.dtype, Shape::SCALAR, 1.0)?;
    let held: Vec<Vec<Value>> = wrt.iter().map(|(_, v)| holders(graph, *v)).collect();
    let found = pullback(graph, &[(loss, seed)], &held.concat()).map_err(|e| match e {
        Stop::Error(e) => e,
        Stop::Node { value, cause } => {
            let name = wrt.iter().find(|(_, v)| depends(graph, value, *v)).map_or("?", |(n, _)| n);
            let through = graph.inner.borrow().describe(value);
            Error::Gradient { parameter: name.to_owned(), through, cause: Box::new(cause) }
        }
    })?;
    let mut found = found.into_iter();
    let mut all = Vec::with_capacity(wrt.len());
    for (holders, (name, value)) in held.iter().zip(wrt) {
        let mut sum = None;
        for part in found.by_ref().take(holders.len()).flatten() {
            let part = graph.cast(part, graph.spec(*value).dtype)?;
            sum = Some(sum.map_or(Ok(part), |sum| graph.add(sum, part))?);
        }
        all.push(match sum {
            Some(sum) => sum,
            // The paths lead through what is constant between its steps.
            None if holders.iter().any(|&v| depends(graph, loss, v)) => {
                let spec = graph.spec(*value);
                graph.fill(spec.dtype, spec.shape, 0.0)?
            }
            None => return Err(Error::NoPath { name: name.clone(), at: Some(at) }),
        });
    }
    Ok(all)
}

/// The values that hold a value's numbers: the value itself and in mixed precision its copy in the other dtype, unless one is
/// made of the other.
fn holders(graph: &Graph, value: Value) -> Vec<Value> {
    match graph.inner.borrow().copies.get(&value) {
        Some(&copy) if depends(graph, value, copy) => vec![copy],
        Some(&copy) if !depends(graph, copy, value) => vec![value, copy],
        Some(_) | None => vec![value],
    }
}

/// Why a pullback ended early.
enum Stop {
    Error(Error),
    /// The node of this value has no gradient.
    Node {
        value: Value,
        cause: OpError,
    },
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Error(e)
    }
}

/// Whether `value` depends on `on`.
fn depends(graph: &Graph, value: Value, on: Value) -> bool {
    reach(graph, &[on]).get(value.index()).copied().unwrap_or(false)
}

/// Which values (numbered from 0) are or depend on one of `wrt`.
fn reach(graph: &Graph, wrt: &[Value]) -> Vec<bool> {
    let inner = graph.inner.borrow();
    let mut needed = vec![false; inner.values.len()];
    for &w in wrt {
        needed[w.index()] = true;
    }
    for i in 0..needed.len() {
        needed[i] |= leads(&inner, i, &needed);
    }
    needed
}

/// Whether value number `i` is made of one of those that are needed.
fn leads(inner: &Inner, i: usize, needed: &[bool]) -> bool {
    match &inner.values[i].origin {
        Origin::Input | Origin::Slab | Origin::View { view: View::Detach, .. } => false,
        Origin::View { of, .. } => needed[of.index()],
        Origin::Node { node } => inner.nodes[*node].inputs.iter().any(|v| needed[v.index()]),
    }
}

/// Pulls cotangents of `seeds` back to `wrt`: the total derivative with respect to each, past it to those that it is made of.
fn pullback(graph: &Graph, seeds: &[(Value, Value)], wrt: &[Value]) -> Result<Vec<Option<Value>>, Stop> {
    let needed = reach(graph, wrt);
    let mut cotangents: Vec<Option<Value>> = vec![None; needed.len()];
    let mut slices: HashMap<Value, Vec<Slice>> = HashMap::new();
    for &(value, cotangent) in seeds {
        accumulate(graph, &mut cotangents, value, cotangent)?;
    }
    for i in (0..needed.len()).rev() {
        let value = graph.inner.borrow().value(i);
        if let Some(parts) = slices.remove(&value) {
            let joined = join_slices(graph, value, parts)?;
            accumulate(graph, &mut cotangents, value, joined)?;
        }
        if !leads(&graph.inner.borrow(), i, &needed) {
            continue;
        }
        let origin = graph.inner.borrow().values[i].origin.clone();
        match origin {
            Origin::Input | Origin::Slab => {}
            Origin::View { of, view } => {
                if let (Some(cotangent), View::Slice { axis, start }) = (cotangents[i], &view) {
                    slices.entry(of).or_default().push(Slice { axis: *axis, start: *start, cotangent });
                } else if let Some(c) = cotangents[i] {
                    let back = through_view(graph, of, &view, c)?;
                    accumulate(graph, &mut cotangents, of, back)?;
                }
            }
            Origin::Node { node } => {
                let node = graph.inner.borrow().nodes[node].clone();
                // The outputs of a node are numbered consecutively: at the first one, all have been visited.
                if node.outputs.first() != Some(&value) {
                    continue;
                }
                let outer: Vec<Option<Value>> = node.outputs.iter().map(|o| cotangents[o.index()]).collect();
                if outer.iter().all(Option::is_none) {
                    continue;
                }
                let needs: Vec<bool> = node.inputs.iter().map(|v| needed[v.index()]).collect();
                let cx = Vjp {
                    graph,
                    inputs: &node.inputs,
                    outputs: &node.outputs,
                    cotangents: &outer,
                    needs: &needs,
                };
                let back = match node.op.vjp() {
                    Grad::Rule(rule) => rule(node.op.as_ref(), &cx)?,
                    Grad::Keeping { rule, kept } if kept.iter().all(|&k| outer[k].is_none()) => {
                        rule(node.op.as_ref(), &cx)?
                    }
                    Grad::FromBody | Grad::Keeping { .. } => from_body(&cx, node.op.as_ref())?,
                    Grad::Zero => continue,
                    Grad::None(why) => {
                        let specs = graph.specs(&node.inputs);
                        let cause = Rule::NoGradient { why }.of(node.op.name(), &specs, None, Some(node.at));
                        return Err(Stop::Node { value, cause });
                    }
                };
                for ((&input, cotangent), need) in node.inputs.iter().zip(back).zip(needs) {
                    if let (Some(c), true) = (cotangent, need) {
                        accumulate(graph, &mut cotangents, input, c)?;
                    }
                }
            }
        }
    }
    Ok(wrt.iter().map(|w| cotangents[w.index()]).collect())
}

/// The cotangent of a slice, held until those of the other slices of the same value exist.
#[derive(Debug, Clone, Copy)]
struct Slice {
    axis: usize,
    start: usize,
    cotangent: Value,
}

/// The cotangent of a value from those of its slices: concatenated if they tile an axis (q, k and v of one projection),
/// else padded with zeros and added.
fn join_slices(graph: &Graph, value: Value, mut parts: Vec<Slice>) -> Result<Value, Error> {
    let shape = graph.shape(value);
    let axis = parts[0].axis;
    parts.sort_by_key(|p| p.start);
    let end = parts.iter().try_fold(0, |at, p| {
        (p.axis == axis && p.start == at).then(|| at + graph.shape(p.cotangent).dims()[axis])
    });
    if end == Some(shape.dims()[axis]) {
        let values: Vec<Value> = parts.iter().map(|p| p.cotangent).collect();
        return graph.concat(&values, axis);
    }
    let mut sum = None;
    for p in parts {
        let len = graph.shape(p.cotangent).dims()[p.axis];
        let after = shape.dims()[p.axis] - p.start - len;
        let padded = graph.op1(ops::Pad { axis: p.axis, before: p.start, after }, &[p.cotangent])?;
        sum = Some(match sum {
            Some(s) => graph.add(s, padded)?,
            None => padded,
        });
    }
    sum.map_or_else(|| graph.fill(graph.spec(value).dtype, shape, 0.0), Ok)
}

fn accumulate(
    graph: &Graph,
    cotangents: &mut [Option<Value>],
    value: Value,
    add: Value,
) -> Result<(), Error> {
    let slot = &mut cotangents[value.index()];
    *slot = Some(match *slot {
        Some(sum) => graph.add(sum, add)?,
        None => add,
    });
    Ok(())
}

/// The gradient of a fused op through the primitives of its body.
fn from_body(cx: &Vjp<'_>, op: &dyn ops::Op) -> Result<Vec<Option<Value>>, Stop> {
    let Body::Fused(body) = op.body() else {
        return Err(Error::from(Rule::NoGradient { why: "it has no body to take it from" }.of(
            op.name(),
            &[],
            None,
            None,
        ))
        .into());
    };
    let inputs = independent(cx.graph, cx.inputs);
    let outputs = body(op, cx.graph, &inputs)?;
    let seeds: Vec<(Value, Value)> =
        outputs.iter().zip(cx.cotangents).filter_map(|(&o, c)| c.map(|c| (o, c))).collect();
    let mut back = pullback(cx.graph, &seeds, &inputs)?;
    // A value that is passed twice has one cotangent, which must count once.
    for (i, cotangent) in back.iter_mut().enumerate() {
        if cx.inputs[..i].contains(&cx.inputs[i]) {
            *cotangent = None;
        }
    }
    Ok(back)
}

/// The arguments of an op as values of which none is made of another: its gradient is with respect to each by itself.
fn independent(graph: &Graph, arguments: &[Value]) -> Vec<Value> {
    let mut values = arguments.to_vec();
    for copy in 0.. {
        let needed = reach(graph, &values);
        let mut inner = graph.inner.borrow_mut();
        if !values.iter().any(|v| leads(&inner, v.index(), &needed)) {
            break;
        }
        // What the body makes of copies is no value that lies between the arguments. But of a gradient's gradient an argument may be
        // made of copies that were taken before: then of others.
        values = arguments.iter().map(|&v| inner.apart(v, copy)).collect();
    }
    values
}

fn through_view(graph: &Graph, of: Value, view: &View, cotangent: Value) -> Result<Value, Error> {
    let source = graph.shape(of);
    match view {
        View::Reshape => graph.reshape(cotangent, source),
        View::Detach => graph.fill(graph.spec(of).dtype, source, 0.0),
        View::Permute(axes) => {
            let mut inverse = vec![0; axes.len()];
            for (to, &from) in axes.iter().enumerate() {
                inverse[from] = to;
            }
            graph.permute(cotangent, &inverse)
        }
        View::Slice { axis, start } => {
            join_slices(graph, of, vec![Slice { axis: *axis, start: *start, cotangent }])
        }
        View::Broadcast => {
            let shape = graph.shape(cotangent);
            let lead = shape.rank() - source.rank();
            let stretched =
                |&axis: &usize| axis < lead || (source.dims()[axis - lead] == 1 && shape.dims()[axis] != 1);
            let axes: Vec<usize> = (0..shape.rank()).filter(stretched).collect();
            let sum = graph.sum(cotangent, &axes)?;
            graph.reshape(sum, source)
        }
        View::Unfold { size, step } => {
            graph.op1(ops::Fold { size: *size, step: *step, length: source.last() }, &[cotangent])
        }
    }
}
