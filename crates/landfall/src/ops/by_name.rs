//! Ops by name, for callers that have no type of them: other languages, and files.

use crate::contract::{AttributeType, AttributeValue, Tested, arity};
use crate::ops::table;
use crate::values::{Axis, Rule, Shape, Spec};
use std::sync::Arc;

/// The op of this name with these attributes; the others have their defaults.
///
/// ```
/// use landfall::ops::{AttributeValue, by_name, text};
/// let op = by_name("l2_norm", &[("eps", AttributeValue::Float(0.5))])?;
/// assert_eq!(text(op.as_ref()), "l2_norm(eps=0.5, scaled=false)");
/// assert_eq!(by_name("mean", &[])?.name(), "mean");
/// # Ok::<(), landfall::Rule>(())
/// ```
///
/// # Errors
/// [`Rule::OpName`] where the table has no op of this name, [`Rule::AttributeName`] and [`Rule::AttributeValue`] for an
/// attribute that it does not take.
pub fn by_name(name: &str, attributes: &[(&str, AttributeValue)]) -> Result<Arc<dyn Tested>, Rule> {
    with(name, |op| attributes.iter().try_for_each(|(name, value)| op.set(name, value)))
}

/// As [`by_name`], for a call with these arguments: an axis may be negative, and then counts from the end.
///
/// ```
/// use landfall::{DType, Spec};
/// use landfall::ops::{AttributeValue, by_name_for, text};
/// let x = Spec::new(DType::F32, [2, 3, 4]);
/// let op = by_name_for("softmax", &[("axis", AttributeValue::Int(-1))], &[x])?;
/// assert_eq!(text(op.as_ref()), "softmax(axis=2)");
/// let op = by_name_for("max", &[("axes", AttributeValue::Ints(vec![0, -1]))], &[x])?;
/// assert_eq!(text(op.as_ref()), "max(reduction=max, axes=[0, 2], wide=false)");
/// # Ok::<(), landfall::Rule>(())
/// ```
///
/// # Errors
/// As [`by_name`]; [`Rule::Axis`] for an axis that the argument does not have, [`Rule::Arity`] for another number of
/// arguments than the op takes.
pub fn by_name_for(
    name: &str,
    attributes: &[(&str, AttributeValue)],
    args: &[Spec],
) -> Result<Arc<dyn Tested>, Rule> {
    with(name, |op| {
        let axis_of = |name: &str| op.declared().iter().find(|a| a.name == name).and_then(|a| a.axis_of);
        // What says which arguments there are, and of what shape the result is, comes first.
        let (axes, others): (Vec<_>, Vec<_>) =
            attributes.iter().map(|(name, value)| (*name, value, axis_of(name))).partition(|a| a.2.is_some());
        others.iter().try_for_each(|(name, value, _)| op.set(name, value))?;
        arity(op, args)?;
        axes.iter().try_for_each(|&(name, value, of)| {
            let rank = of.and_then(|of| shape_of(op, of, args)).map_or(0, |shape| shape.rank());
            op.set(name, &from_front(value, rank)?)
        })
    })
}

/// An op under one of its names.
#[derive(Debug, Clone)]
pub struct Named {
    /// The op; its attributes have their defaults, but for the one that gives the name.
    pub op: Arc<dyn Tested>,
    /// The attribute whose value gives the op this name, if one does: `reduction` of `mean`, `cell` of `lstm`.
    pub by: Option<&'static str>,
}

/// Every op of the [`table`] under each of its names, by name.
///
/// ```
/// let all = landfall::ops::named();
/// let by = |name: &str| all.iter().find(|named| named.op.name() == name).map(|named| named.by);
/// assert_eq!((by("softmax"), by("lstm")), (Some(None), Some(Some("cell"))));
/// ```
#[must_use]
pub fn named() -> Vec<Named> {
    let mut all: Vec<Named> = table()
        .iter_mut()
        .flat_map(names)
        .filter_map(|(name, by)| Some(Named { op: by_name(name, &[]).ok()?, by }))
        .collect();
    all.sort_by_key(|named| named.op.name());
    all
}

/// The names of an op, and the attribute that gives them where there are several.
fn names(op: &mut Arc<dyn Tested>) -> Vec<(&'static str, Option<&'static str>)> {
    if op.internal() {
        return Vec::new();
    }
    let own = op.name();
    if let Some(op) = Arc::get_mut(op) {
        for attribute in op.declared() {
            let under = |choice: &&'static str| {
                op.set(attribute.name, &(*choice).into()).ok()?;
                Some((op.name(), Some(attribute.name)))
            };
            let under: Vec<_> = attribute.choices.iter().filter_map(under).collect();
            if under.iter().any(|(name, _)| *name != own) {
                return under;
            }
        }
    }
    vec![(own, None)]
}

/// The op of this name, set up.
fn with(name: &str, set: impl FnOnce(&mut dyn Tested) -> Result<(), Rule>) -> Result<Arc<dyn Tested>, Rule> {
    let Some(mut op) = table().into_iter().find_map(|op| called(op, name)) else {
        let all: Vec<_> = table().iter_mut().flat_map(names).map(|(name, _)| name).collect();
        return Err(Rule::OpName { kind: "op", name: name.to_owned(), nearest: nearest(name, all) });
    };
    // The table's ops are made anew: nobody else holds this one.
    if let Some(op) = Arc::get_mut(&mut op) {
        set(op)?;
    }
    Ok(op)
}

/// The few of these names that a wrong one most resembles.
pub(super) fn nearest(name: &str, of: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    let mut all: Vec<_> = of.into_iter().map(|own| (strsim::jaro_winkler(name, own), own)).collect();
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    all.into_iter().take(3).map(|(_, own)| own).collect()
}

/// The shape of the argument of this name, or of the attribute that says the result's.
fn shape_of(op: &dyn Tested, name: &str, args: &[Spec]) -> Option<Shape> {
    let taken = op.arguments().iter().filter(|a| a.taken(op));
    if let Some((_, arg)) = taken.zip(args).find(|(a, _)| a.name == name) {
        return Some(arg.shape);
    }
    let index = op.declared().iter().position(|a| a.name == name)?;
    Spec::from_value(&op.attribute(index)?).map(|spec| spec.shape)
}

/// An axis, or several, as numbers from the front.
fn from_front(value: &AttributeValue, rank: usize) -> Result<AttributeValue, Rule> {
    let index = |&axis: &i64| {
        let axis = isize::try_from(axis).map_err(|_| Rule::Axis { axis: isize::MAX, rank })?;
        axis.index(rank).map(|index| index as i64)
    };
    Ok(match value {
        AttributeValue::Int(axis) => AttributeValue::Int(index(axis)?),
        AttributeValue::Ints(axes) => AttributeValue::Ints(axes.iter().map(index).collect::<Result<_, _>>()?),
        AttributeValue::None
        | AttributeValue::Bool(_)
        | AttributeValue::Float(_)
        | AttributeValue::Text(_) => value.clone(),
    })
}

/// An op, if one choice of its attributes has this name.
fn called(mut op: Arc<dyn Tested>, name: &str) -> Option<Arc<dyn Tested>> {
    if op.name() == name {
        return Some(op);
    }
    let inner = Arc::get_mut(&mut op)?;
    for attribute in inner.declared() {
        for &choice in attribute.choices {
            inner.set(attribute.name, &choice.into()).ok()?;
            if inner.name() == name {
                return Some(op);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
