//! Ops by name, for callers that have no type of them: other languages, and files.

use crate::contract::{Attribute, AttributeType, AttributeValue, Tested, arity};
use crate::ops::table;
use crate::values::{Axis, Rule, Shape, Spec};
use std::sync::Arc;

/// The op of this name with these attributes; the others have the defaults that the op declares.
///
/// ```
/// use landfall::ops::{AttributeValue, by_name, text};
/// let op = by_name("l2_norm", &[("eps", AttributeValue::Float(0.5))])?;
/// assert_eq!(text(op.as_ref()), "l2_norm(eps=0.5, scaled=false)");
/// assert_eq!(by_name("mean", &[("axes", AttributeValue::Int(0))])?.name(), "mean");
/// assert_eq!(by_name("clip_scale", &[]).unwrap_err().to_string(), "needs max, a number");
/// # Ok::<(), landfall::Rule>(())
/// ```
///
/// # Errors
/// [`Rule::OpName`] where the table has no op of this name, [`Rule::AttributeName`] and [`Rule::AttributeValue`] for an
/// attribute that it does not take, [`Rule::Missing`] for one that must be given, as also those must whose defaults arguments
/// decide.
pub fn by_name(name: &str, attributes: &[(&str, AttributeValue)]) -> Result<Arc<dyn Tested>, Rule> {
    with(name, |op, by| {
        attributes.iter().try_for_each(|(name, value)| op.set(name, value))?;
        for attribute in left_out(op, by, attributes) {
            // A default that arguments decide is none here.
            let set = attribute.default().is_some_and(|value| op.set(attribute.name, &value).is_ok());
            if !set {
                return Err(missing(attribute));
            }
        }
        Ok(())
    })
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
/// As [`by_name`], but for axes; [`Rule::Axis`] for an axis that the argument does not have, [`Rule::Arity`] for another number of
/// arguments than the op takes.
pub fn by_name_for(
    name: &str,
    attributes: &[(&str, AttributeValue)],
    args: &[Spec],
) -> Result<Arc<dyn Tested>, Rule> {
    with(name, |op, by| {
        let open = left_out(op, by, attributes);
        let given = attributes.iter().map(|(name, value)| (*name, value.clone()));
        let defaults = open.iter().filter_map(|a| Some((a.name, a.default()?)));
        let mut axes = Vec::new();
        // What says which arguments there are, and of what shape the result is, comes first.
        for (name, value) in given.chain(defaults) {
            match op.declared().iter().find(|a| a.name == name).and_then(|a| a.axis_of) {
                Some(of) => axes.push((name, of, value)),
                None if value == AttributeValue::None => {
                    op.set(name, &op.left_out(name, args).unwrap_or(value))?;
                }
                None => op.set(name, &value)?,
            }
        }
        // An attribute that is missing may say which arguments there are.
        open.iter().find(|a| a.default.is_none()).map_or(Ok(()), |a| Err(missing(a)))?;
        arity(op, args)?;
        axes.into_iter().try_for_each(|(name, of, value)| {
            let rank = shape_of(op, of, args).map_or(0, |shape| shape.rank());
            op.set(name, &from_front(value, rank)?)
        })
    })
}

/// The declared attributes that are not given: all but the one that the name gives.
fn left_out(op: &dyn Tested, by: Option<&str>, given: &[(&str, AttributeValue)]) -> Vec<&'static Attribute> {
    let left = |a: &&Attribute| Some(a.name) != by && given.iter().all(|(name, _)| *name != a.name);
    op.declared().iter().filter(left).collect()
}

fn missing(attribute: &Attribute) -> Rule {
    let takes = if attribute.axis_of.is_some() { "an axis" } else { attribute.takes };
    Rule::Missing { name: attribute.name, takes }
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
        .filter_map(|(name, by)| Some(Named { op: with(name, |_, _| Ok(())).ok()?, by }))
        .collect();
    all.sort_by_key(|named| named.op.name());
    all
}

/// The names of an op, and the attribute that gives them where there are several. The op is as before.
fn names(op: &mut Arc<dyn Tested>) -> Vec<(&'static str, Option<&'static str>)> {
    if op.internal() {
        return Vec::new();
    }
    let own = op.name();
    if let Some(op) = Arc::get_mut(op) {
        for (index, attribute) in op.declared().iter().enumerate() {
            let Some(before) = op.attribute(index) else { continue };
            let under = |choice: &&'static str| {
                op.set(attribute.name, &(*choice).into()).ok()?;
                Some((op.name(), Some(attribute.name)))
            };
            let under: Vec<_> = attribute.choices.iter().filter_map(under).collect();
            // It held this value.
            _ = op.set(attribute.name, &before);
            if under.iter().any(|(name, _)| *name != own) {
                return under;
            }
        }
    }
    vec![(own, None)]
}

/// The op of this name, set up; the attribute that gives it the name is set.
fn with(
    name: &str,
    set: impl FnOnce(&mut dyn Tested, Option<&'static str>) -> Result<(), Rule>,
) -> Result<Arc<dyn Tested>, Rule> {
    let Some((mut op, by)) = table().into_iter().find_map(|op| called(op, name)) else {
        let all: Vec<_> = table().iter_mut().flat_map(names).map(|(name, _)| name).collect();
        return Err(Rule::OpName { kind: "op", name: name.to_owned(), nearest: nearest(name, all) });
    };
    // The table's ops are made anew: nobody else holds this one.
    if let Some(op) = Arc::get_mut(&mut op) {
        set(op, by)?;
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

/// An axis, or several, as numbers from the front; none given are all of them.
fn from_front(value: AttributeValue, rank: usize) -> Result<AttributeValue, Rule> {
    let index = |&axis: &i64| {
        let axis = isize::try_from(axis).map_err(|_| Rule::Axis { axis: isize::MAX, rank })?;
        axis.index(rank).map(|index| index as i64)
    };
    Ok(match value {
        AttributeValue::Int(axis) => AttributeValue::Int(index(&axis)?),
        AttributeValue::Ints(axes) => AttributeValue::Ints(axes.iter().map(index).collect::<Result<_, _>>()?),
        AttributeValue::None => AttributeValue::Ints((0..rank as i64).collect()),
        AttributeValue::Bool(_) | AttributeValue::Float(_) | AttributeValue::Text(_) => value,
    })
}

/// An op, if one choice of its attributes has this name, and the attribute that has it.
fn called(mut op: Arc<dyn Tested>, name: &str) -> Option<(Arc<dyn Tested>, Option<&'static str>)> {
    let by = names(&mut op).into_iter().find(|(own, _)| *own == name)?.1;
    let inner = Arc::get_mut(&mut op)?;
    let attribute = inner.declared().iter().find(|a| Some(a.name) == by);
    for &choice in attribute.map_or(&[][..], |a| a.choices) {
        if inner.name() != name {
            inner.set(by?, &choice.into()).ok()?;
        }
    }
    Some((op, by))
}

#[cfg(test)]
mod tests;
