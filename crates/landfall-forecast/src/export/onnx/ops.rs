//! The ONNX form of each op that has one; ops that are composed of others need none of their own.

use super::level::{Level, Pair};
use super::pointwise;
use super::proto::Attribute;
use super::writer::{Dim, Writer, data_type};
use crate::export::error::{ExportError, no_form};
use landfall::codegen::Expression;
use landfall::ops::{self, AttributeValue, Body, Op, attributes};
use landfall::{DType, HostTensor};
use std::sync::Arc;

/// Whether an op is a matrix product.
pub(super) fn multiplies(op: &Arc<dyn Op>) -> bool {
    attributes::<ops::MatMul>(op.as_ref()).is_ok()
}

/// The value of an attribute by its name.
fn attribute(op: &dyn Op, name: &str) -> Option<AttributeValue> {
    op.attribute(op.declared().iter().position(|a| a.name == name)?)
}

/// Writes the ops of a graph.
pub(super) struct Operators<'a> {
    pub(super) w: &'a mut Writer,
    pub(super) level: &'a Level,
}

impl Operators<'_> {
    /// Writes an op as operators of ONNX; the names of its results, or `None` where it is to be written as its body. `inputs`
    /// are the names and values of what it is given, `results` its results and which of them is wanted.
    ///
    /// # Errors
    /// An op that has no ONNX form and no body.
    pub(super) fn op(
        &mut self,
        op: &dyn Op,
        inputs: (&[String], &[Pair]),
        results: (&[Pair], usize),
        wish: &str,
    ) -> Result<Option<Vec<String>>, ExportError> {
        let (names, values) = inputs;
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        let out = self.level.dtype(results.0[0]);
        let axis = |axis: usize| vec![Attribute::int("axis", axis as i64)];
        let one = |name: String| Ok(Some(vec![name]));
        if attributes::<ops::Copy>(op).is_ok() {
            return one(names[0].clone());
        }
        if let Ok(cast) = attributes::<ops::Cast>(op) {
            let to = vec![Attribute::int("to", i64::from(data_type(cast.dtype)))];
            return one(self.w.node("Cast", &refs, to, wish));
        }
        if attributes::<ops::MatMul>(op).is_ok() {
            let [lhs, rhs, added @ ..] = refs.as_slice() else { return Ok(None) };
            let product = self.w.node("MatMul", &[lhs, rhs], Vec::new(), wish);
            return one(added
                .iter()
                .fold(product, |sum, add| self.w.node("Add", &[&sum, add], Vec::new(), wish)));
        }
        if attributes::<ops::Reduce>(op).is_ok() {
            return self.reduce(op, (names, values), out, wish).map(|name| Some(vec![name]));
        }
        if let Ok(softmax) = attributes::<ops::Softmax>(op) {
            return one(self.w.node("Softmax", &refs, axis(softmax.axis), wish));
        }
        if let Ok(norm) = attributes::<ops::LayerNorm>(op) {
            // The statistics are for gradients; who reads them gets the body.
            return match results.1 {
                0 => {
                    let form = vec![Attribute::int("axis", -1), Attribute::float("epsilon", norm.eps)];
                    one(self.w.node("LayerNormalization", &refs, form, wish))
                }
                _ => Ok(None),
            };
        }
        if let Ok(concat) = attributes::<ops::Concat>(op) {
            return one(self.w.node("Concat", &refs, axis(concat.axis), wish));
        }
        if let Ok(iota) = attributes::<ops::Iota>(op) {
            if self.level.dims(results.0[0])?.iter().any(|size| matches!(size, Dim::Batch(_))) {
                return Err(no_form("iota", None, "it counts along the batch"));
            }
            let sizes = iota.spec.shape.dims();
            let inner: usize = sizes[iota.axis + 1..].iter().product();
            let at = |i: usize| (i / inner % sizes[iota.axis]) as f64;
            return one(self.w.constant(&HostTensor::from_fn(iota.spec, |i| iota.start + iota.step * at(i))));
        }
        if let Ok(pad) = attributes::<ops::Pad>(op) {
            let rank = self.level.dims(values[0])?.len();
            let mut sides = vec![0; 2 * rank];
            (sides[pad.axis], sides[rank + pad.axis]) = (pad.before as i64, pad.after as i64);
            let sides = self.w.list(&sides);
            return one(self.w.node("Pad", &[&names[0], &sides], Vec::new(), wish));
        }
        if let Ok(gather) = attributes::<ops::Gather>(op) {
            let operator = if gather.rows { "Gather" } else { "GatherElements" };
            return one(self.w.node(operator, &refs, axis(gather.axis), wish));
        }
        if let Ok(sort) = attributes::<ops::Sort>(op) {
            let Dim::Fixed(size) = self.level.dims(values[0])?[sort.axis] else {
                return Err(no_form("sort", None, "it sorts along the batch"));
            };
            let count = self.w.list(&[size as i64]);
            let mut form = axis(sort.axis);
            form.push(Attribute::int("largest", i64::from(sort.descending)));
            let both = vec![self.w.fresh(wish), self.w.fresh(&format!("{wish}/indices"))];
            self.w.node_into("TopK", &[&names[0], &count], form, both.clone());
            return Ok(Some(both));
        }
        let Body::Pointwise(build) = op.body() else { return Ok(None) };
        let expression = Expression::new(|e| build(op, e));
        let arguments: Vec<(String, DType)> =
            names.iter().cloned().zip(values.iter().map(|&v| self.level.dtype(v))).collect();
        let name = pointwise::expression(self.w, &expression, &arguments, out, wish, op.name())?;
        if !arguments.is_empty() {
            return one(name);
        }
        // Without arguments it is one number everywhere.
        let dims = self.level.dims(results.0[0])?;
        if dims.is_empty() {
            return one(name);
        }
        let shape = self.w.shape(&dims);
        one(self.w.node("Expand", &[&name, &shape], Vec::new(), wish))
    }

    /// A reduction; of integers whose sum is wider, of those cast.
    fn reduce(
        &mut self,
        op: &dyn Op,
        (names, values): (&[String], &[Pair]),
        out: DType,
        wish: &str,
    ) -> Result<String, ExportError> {
        let kind = match attribute(op, "reduction") {
            Some(AttributeValue::Text(kind)) => kind,
            _ => return Err(no_form("reduce", None, "its reduction has no name")),
        };
        let operator = match kind.as_str() {
            "sum" => "ReduceSum",
            "mean" => "ReduceMean",
            "max" => "ReduceMax",
            "min" => "ReduceMin",
            "prod" => "ReduceProd",
            other => return Err(no_form("reduce", None, format!("ONNX has no reduction {other}"))),
        };
        let Some(AttributeValue::Ints(axes)) = attribute(op, "axes") else {
            return Err(no_form("reduce", None, "its axes are not known"));
        };
        let mut x = names[0].clone();
        if self.level.dtype(values[0]) != out {
            let to = vec![Attribute::int("to", i64::from(data_type(out)))];
            x = self.w.node("Cast", &[&x], to, wish);
        }
        if axes.is_empty() {
            return Ok(x);
        }
        let axes = self.w.list(&axes);
        Ok(self.w.node(operator, &[&x, &axes], vec![Attribute::int("keepdims", 0)], wish))
    }
}
