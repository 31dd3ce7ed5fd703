//! Ops by name, for callers that have no type of them: other languages, and files.

use crate::contract::{AttributeValue, Tested};
use crate::ops::table;
use crate::values::Rule;
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
    let mut op = table()
        .into_iter()
        .find_map(|op| named(op, name))
        .ok_or_else(|| Rule::OpName { name: name.to_owned() })?;
    // The table's ops are made anew: nobody else holds this one.
    if let Some(op) = Arc::get_mut(&mut op) {
        attributes.iter().try_for_each(|(name, value)| op.set(name, value))?;
    }
    Ok(op)
}

/// An op, if one choice of its attributes has this name.
fn named(mut op: Arc<dyn Tested>, name: &str) -> Option<Arc<dyn Tested>> {
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
