//! Walks a graph and writes each of its values as ONNX nodes.

use super::level::{Expansion, Level, Maker, Pair, paired};
use super::ops::{Operators, multiplies};
use super::proto::Attribute;
use super::writer::{Dim, Writer};
use crate::export::error::{ExportError, no_form};
use landfall::ops::{Body, Op};
use landfall::walk::ViewOf;
use landfall::{DType, Graph, HostTensor, Spec, Value};
use std::rc::Rc;
use std::sync::Arc;

/// What two values broadcast to, axis by axis from the last; `None` where they do not.
fn broadcast(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let lead = long.len() - short.len();
    let both = long[lead..].iter().zip(short).map(|(&x, &y)| match (x, y) {
        _ if x == y => Some(x),
        (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Some(other),
        _ => None,
    });
    long[..lead].iter().map(|&d| Some(d)).chain(both).collect()
}

/// Writes graphs.
pub(super) struct Lowering<'a> {
    pub(super) w: Writer,
    /// The value of an entry of the state.
    pub(super) weights: &'a dyn Fn(&str) -> Result<HostTensor, ExportError>,
}

impl Lowering<'_> {
    /// Writes a value and all that it is made of; its name.
    ///
    /// # Errors
    /// The first op without an ONNX form.
    pub(super) fn value(&mut self, level: &mut Level, pair: Pair) -> Result<String, ExportError> {
        let mut stack = vec![pair];
        while let Some(&top) = stack.last() {
            if level.names.contains_key(&top[0]) {
                stack.pop();
                continue;
            }
            if let Some(entry) = level.entries.get(&top[0]) {
                let name = self.w.initializer(entry, &(self.weights)(entry)?);
                level.names.insert(top[0], name);
                continue;
            }
            let maker = level.made(top)?;
            let needs = Self::needs(level, top, &maker)?;
            let missing: Vec<Pair> =
                needs.iter().filter(|n| !level.names.contains_key(&n[0])).copied().collect();
            if missing.is_empty() {
                let name = self.write(level, top, maker, &needs)?;
                level.names.insert(top[0], name);
            } else {
                stack.extend(missing);
            }
        }
        Ok(level.names.get(&pair[0]).cloned().unwrap_or_default())
    }

    /// The values that a value is written from. ONNX operators broadcast by themselves, so that what is only stretched for
    /// one of them is not stretched in memory.
    fn needs(level: &Level, pair: Pair, maker: &Maker) -> Result<Vec<Pair>, ExportError> {
        match maker {
            Maker::Input | Maker::Slab => Ok(Vec::new()),
            Maker::View { of, .. } => Ok(vec![*of]),
            Maker::Result { ops, arguments, .. } => {
                let matrices = match ops[0].body() {
                    Body::Pointwise(_) => 0,
                    Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) if multiplies(&ops[0]) => 2,
                    Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) => return Ok(arguments.clone()),
                };
                unstretched(level, arguments, &level.dims(pair)?, matrices)
            }
        }
    }

    fn write(
        &mut self,
        level: &mut Level,
        pair: Pair,
        maker: Maker,
        needs: &[Pair],
    ) -> Result<String, ExportError> {
        let inputs: Vec<String> =
            needs.iter().map(|n| level.names.get(&n[0]).cloned().unwrap_or_default()).collect();
        let own = level.name_of(pair);
        match maker {
            Maker::Input | Maker::Slab => {
                Err(no_form("input", own, "it is neither an input of the model nor one of its weights"))
            }
            Maker::View { of, view } => self.view(level, pair, of, &inputs[0], &view),
            Maker::Result { ops, arguments, results } => {
                let op = &ops[0];
                let wish = format!("{}{}", level.prefix, own.clone().unwrap_or_else(|| op.name().to_owned()));
                let at = results.iter().position(|r| r[0] == pair[0]).unwrap_or(0);
                let mut operators = Operators { w: &mut self.w, level: &*level };
                if let Some(written) = operators.op(op.as_ref(), (&inputs, needs), (&results, at), &wish)? {
                    for (result, name) in results.iter().zip(&written) {
                        level.names.insert(result[0], name.clone());
                    }
                    return Ok(written[at].clone());
                }
                let Body::Fused(_) = op.body() else {
                    let why = "it is neither an ONNX operator nor composed of ops that are";
                    return Err(no_form(op.name(), own, why));
                };
                self.body(level, &ops, &arguments, &results, at, &inputs, &wish)
            }
        }
    }

    /// One result of an op that is written as the ops of its body.
    #[allow(clippy::too_many_arguments, reason = "they are the parts of one node")]
    fn body(
        &mut self,
        level: &mut Level,
        ops: &[Arc<dyn Op>; 2],
        arguments: &[Pair],
        results: &[Pair],
        at: usize,
        inputs: &[String],
        wish: &str,
    ) -> Result<String, ExportError> {
        let key = results[0][0];
        let mut body = match level.bodies.remove(&key) {
            Some(body) => body,
            None => Self::open(level, ops, arguments, inputs, wish)?,
        };
        let name = self.value(&mut body.level, body.results[at])?;
        level.bodies.insert(key, body);
        Ok(name)
    }

    /// The body of an op, in graphs of its own.
    fn open(
        level: &Level,
        ops: &[Arc<dyn Op>; 2],
        arguments: &[Pair],
        inputs: &[String],
        wish: &str,
    ) -> Result<Expansion, ExportError> {
        let mut graphs = Vec::with_capacity(2);
        let (mut results, mut leaves) = ([Vec::new(), Vec::new()], Vec::new());
        for (side, op) in ops.iter().enumerate() {
            let g = Graph::new(&Arc::new(landfall::StateSpec::new()));
            let values: Vec<Value> = (arguments.iter().enumerate())
                .map(|(i, argument)| {
                    let Spec { dtype, shape } = level.graphs[side].spec(argument[side]);
                    g.input(&i.to_string(), dtype, shape)
                })
                .collect();
            if let Body::Fused(body) = op.body() {
                results[side] = body(op.as_ref(), &g, &values)?;
            }
            if side == 0 {
                leaves = values.into_iter().zip(inputs.iter().cloned()).collect();
            }
            graphs.push(Rc::new(g));
        }
        let [first, second] =
            <[Rc<Graph>; 2]>::try_from(graphs).unwrap_or_else(|_| unreachable!("two graphs"));
        let inner = Level::new([first, second], leaves, &[])?;
        Ok(Expansion { level: Level { prefix: format!("{wish}/"), ..inner }, results: paired(results) })
    }

    /// A view: the same elements, arranged anew.
    fn view(
        &mut self,
        level: &Level,
        pair: Pair,
        of: Pair,
        x: &str,
        view: &ViewOf,
    ) -> Result<String, ExportError> {
        let (dims, from) = (level.dims(pair)?, level.dims(of)?);
        let own = level.name_of(pair);
        let wish = |kind: &str| match &own {
            Some(name) => format!("{}{name}", level.prefix),
            None => format!("{}{kind}", level.prefix),
        };
        Ok(match view {
            _ if matches!(view, ViewOf::Same | ViewOf::Broadcast | ViewOf::Sliced { .. }) && dims == from => {
                x.to_owned()
            }
            ViewOf::Same => {
                let shape = self.w.target(&dims);
                self.w.node("Reshape", &[x, &shape], Vec::new(), &wish("reshape"))
            }
            ViewOf::Permuted(axes) => {
                let axes = vec![Attribute::ints("perm", axes.iter().copied())];
                self.w.node("Transpose", &[x], axes, &wish("permute"))
            }
            ViewOf::Sliced { axis, start } => {
                let Dim::Fixed(length) = dims[*axis] else {
                    return Err(no_form("slice", own, "it takes a part of the batch"));
                };
                let (start, end) = (*start as i64, (*start + length) as i64);
                let parts = [start, end, *axis as i64].map(|n| self.w.list(&[n]));
                self.w.node("Slice", &[x, &parts[0], &parts[1], &parts[2]], Vec::new(), &wish("slice"))
            }
            ViewOf::Broadcast => {
                let shape = self.w.shape(&dims);
                self.w.node("Expand", &[x, &shape], Vec::new(), &wish("expand"))
            }
            ViewOf::Windows { size, step } => {
                let Some(Dim::Fixed(windows)) = dims.get(dims.len().saturating_sub(2)).copied() else {
                    return Err(no_form("unfold", own, "it takes windows across the batch"));
                };
                // ONNX has no overlapping views: the windows are gathered by a table of indices [windows, size].
                let spec = Spec::new(DType::I64, [windows, *size]);
                let table = HostTensor::from_fn(spec, |i| (i / size * step + i % size) as f64);
                let indices = self.w.constant(&table);
                let axis = vec![Attribute::int("axis", from.len() as i64 - 1)];
                self.w.node("Gather", &[x, &indices], axis, &wish("windows"))
            }
        })
    }
}

/// The arguments of an op before they were stretched, if the op's operator stretches them to the same result. Of the last
/// `matrices` axes none is stretched.
fn unstretched(
    level: &Level,
    arguments: &[Pair],
    result: &[Dim],
    matrices: usize,
) -> Result<Vec<Pair>, ExportError> {
    let mut sources = Vec::with_capacity(arguments.len());
    let mut common: Option<Vec<Dim>> = Some(Vec::new());
    for (i, &argument) in arguments.iter().enumerate() {
        // What is added to a product has no say in its shape.
        let fixed = if i < 2 { matrices } else { 0 };
        let (mut source, whole) = (argument, level.dims(argument)?);
        while let Maker::View { of, view: ViewOf::Broadcast } = level.made(source)? {
            let dims = level.dims(of)?;
            if dims.len() < fixed || dims[dims.len() - fixed..] != whole[whole.len() - fixed..] {
                break;
            }
            source = of;
        }
        if i < 2 || matrices == 0 {
            let dims = level.dims(source)?;
            common = common.and_then(|c| broadcast(&c, &dims[..dims.len() - fixed.min(dims.len())]));
        }
        sources.push(source);
    }
    let batch = &result[..result.len() - matrices.min(result.len())];
    Ok(if common.as_deref() == Some(batch) { sources } else { arguments.to_vec() })
}
