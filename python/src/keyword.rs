//! What a call meant whose keywords or numbers do not fit, for errors.

use crate::error::{Class, text};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

/// Names that libraries give one thing. A keyword of a row is told the name that the call takes of the same row.
const SAME: &[&[&str]] = &[
    &["axis", "axes", "dim", "dims"],
    &["keep", "keepdim", "keepdims", "keep_dim", "keep_dims"],
    &["shape", "size", "sizes", "newshape"],
    &["exponent", "rhs", "other", "power"],
    &["lhs", "rhs", "x", "input", "self", "a", "tensor"],
    &["low", "min", "a_min", "min_val"],
    &["high", "max", "a_max", "max_val"],
    &["eps", "epsilon"],
    &["rate", "p", "prob", "dropout_p"],
    &["slope", "negative_slope"],
    &["weight", "gamma", "scale"],
    &["bias", "beta", "shift"],
    &["index", "indices", "idx", "ids"],
    &["classes", "num_classes"],
    &["groups", "num_groups"],
    &["times", "repeats", "reps"],
    &["shift", "shifts"],
    &["correction", "ddof", "unbiased"],
    &["size", "kernel_size"],
    &["causal", "is_causal"],
    &["mask", "attn_mask"],
    &["approximation", "approximate"],
    &["smoothing", "label_smoothing"],
    &["ignored", "ignore_index"],
    &["descending", "largest"],
    &["values", "tensors"],
    &["dtype", "type"],
    &["start", "begin"],
    &["len", "length", "count"],
];

/// The name among `known` that a wrong keyword means, if one is near.
fn meant<'a>(py: Python<'_>, name: &str, known: &[&'a str]) -> PyResult<Option<&'a str>> {
    let rows = SAME.iter().filter(|row| row.contains(&name));
    let mut same = rows.flat_map(|row| row.iter()).filter_map(|other| known.iter().find(|own| *own == other));
    if let Some(own) = same.next() {
        return Ok(Some(own));
    }
    let near: Vec<String> = py
        .import("difflib")?
        .call_method1("get_close_matches", (name, PyList::new(py, known)?, 1))?
        .extract()?;
    Ok(known.iter().copied().find(|own| near.iter().any(|near| near == own)))
}

/// Why a call has no such keyword: what it takes instead, and all that it takes.
pub(crate) fn unknown(py: Python<'_>, call: &str, name: &str, known: &[&str]) -> PyResult<String> {
    let has = match known {
        [] => "none".to_owned(),
        known => known.join(", "),
    };
    let all = format!("{call} has no keyword {name:?}; it has {has}");
    Ok(match meant(py, name, known)? {
        Some(own) => format!("{call} takes {own}, not {name}: {all}"),
        None => all,
    })
}

/// The integer that an object is: anything with `__index__`, but no truth value.
pub(crate) fn integer(given: &Bound<'_, PyAny>) -> Option<i64> {
    if given.is_instance_of::<PyBool>() { None } else { given.extract().ok() }
}

/// The objects that a call gives one by one, or as the one list that stands first.
pub(crate) fn spread<'py>(args: &Bound<'py, PyTuple>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let all: Vec<_> = args.iter().collect();
    match all.split_first() {
        Some((list, rest)) if is_list(list) => list.try_iter()?.chain(rest.iter().cloned().map(Ok)).collect(),
        _ => Ok(all),
    }
}

/// The arguments of these names, the first `required` of which must be given, by position or by keyword.
pub(crate) fn taken<'py, const N: usize>(
    call: &str,
    names: [&'static str; N],
    required: usize,
    args: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<[Option<Bound<'py, PyAny>>; N]> {
    let py = args.py();
    let refused = |why: String| Err(Class::Argument.error(py, why));
    let takes = names.join(", ");
    if args.len() > N {
        return refused(format!(
            "{call} takes {takes}; {} arguments were given: {}",
            args.len(),
            text(args.as_any())
        ));
    }
    let mut all: [Option<Bound<'py, PyAny>>; N] = std::array::from_fn(|i| args.get_item(i).ok());
    for (name, value) in keywords.into_iter().flat_map(|keywords| keywords.iter()) {
        let name: String = name.extract()?;
        let Some(place) = names.iter().position(|own| *own == name) else {
            return refused(unknown(py, call, &name, &names)?);
        };
        if all[place].replace(value).is_some() {
            return refused(format!("{call}: {name} was given twice, by position and by name"));
        }
    }
    match all.iter().take(required).position(Option::is_none) {
        Some(missing) => refused(format!("{call} takes {takes}; {} is missing", names[missing])),
        None => Ok(all.map(|given| given.filter(|given| !given.is_none()))),
    }
}

/// Whether an object is a list or a tuple.
pub(crate) fn is_list(given: &Bound<'_, PyAny>) -> bool {
    given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>()
}

/// What a function that stands in a value's place should have been; nothing of other objects.
pub(crate) fn uncalled(given: &Bound<'_, PyAny>) -> String {
    let class = given.get_type();
    // A class of its own that can be called too, such as a module of torch, is not a function.
    let functions = [
        "function",
        "builtin_function_or_method",
        "method",
        "method_descriptor",
        "type",
        "Method",
        "ValueMethod",
        "Op",
    ];
    let is_function = given.is_callable()
        && class.name().is_ok_and(|name| functions.iter().any(|function| name == *function));
    if is_function { "; call it, and give what it returns".to_owned() } else { String::new() }
}
