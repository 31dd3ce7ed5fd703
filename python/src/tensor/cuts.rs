//! Indices of Python: `x[1, :, None, ..., ::2]` as cuts of one axis each.

use crate::error::{Class, text};
use landfall::Spec;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyString, PyTuple};

/// What an index does to one axis, counted in what the cuts before left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A new axis of size 1.
    NewAxis(usize),
    /// Elements `start`, `start + step`, …, `len` of them; backwards where the step is negative.
    Range { axis: usize, start: usize, len: usize, step: isize },
    /// One element, without its axis.
    At { axis: usize, index: usize },
}

/// The cuts of an index of an array.
pub(crate) fn of(spec: Spec, key: &Bound<'_, PyAny>) -> PyResult<Vec<Cut>> {
    let py = key.py();
    let items: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![key.clone()],
    };
    let (sizes, rank) = (spec.shape.dims(), spec.shape.rank());
    let is_ellipsis = |item: &Bound<'_, PyAny>| item.is_instance_of::<PyEllipsis>();
    let named = items.iter().filter(|item| !item.is_none() && !is_ellipsis(item)).count();
    let refused = |class: Class, why: String| Err(class.error(py, format!("index of {spec}: {why}")));
    if named > rank {
        return refused(Class::Index, format!("it names {named} axes, the tensor has {rank}"));
    }
    if items.iter().filter(|item| is_ellipsis(item)).count() > 1 {
        return refused(Class::Index, "it has more than one ...".to_owned());
    }
    // `from` is the axis of the array, `axis` the same one in what is left of it.
    let (mut cuts, mut axis, mut from) = (Vec::new(), 0, 0);
    for item in &items {
        if item.is_none() {
            cuts.push(Cut::NewAxis(axis));
            axis += 1;
        } else if is_ellipsis(item) {
            axis += rank - named;
            from += rank - named;
        } else if let Ok(slice) = item.cast::<PySlice>() {
            let range = slice.indices(sizes[from] as isize)?;
            let step = range.step;
            let start = usize::try_from(range.start).unwrap_or(0);
            if (start, range.slicelength, step) != (0, sizes[from], 1) {
                cuts.push(Cut::Range { axis, start, len: range.slicelength, step });
            }
            axis += 1;
            from += 1;
        } else if let Some(at) = integer(item) {
            let size = sizes[from];
            let from_front = if at < 0 { at.checked_add(size as i64) } else { Some(at) };
            let Some(index) = from_front.and_then(|at| usize::try_from(at).ok()).filter(|&at| at < size)
            else {
                return refused(Class::Index, format!("{at} is out of range of axis {from} of size {size}"));
            };
            cuts.push(Cut::At { axis, index });
            from += 1;
        } else if item.is_instance_of::<PyInt>() && !item.is_instance_of::<PyBool>() {
            let why = format!("{item} is out of range of axis {from} of size {}", sizes[from]);
            return refused(Class::Index, why);
        } else {
            return refused(
                Class::Argument,
                format!(
                    "{} is neither an integer nor a slice, None, ... or an array of integers",
                    text(item)
                ),
            );
        }
    }
    Ok(cuts)
}

/// Whether an index has arrays, lists or values of a traced function in it: what is neither an integer nor a cut.
pub(crate) fn has_arrays(key: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_array = |item: &Bound<'_, PyAny>| -> PyResult<bool> {
        Ok(integer(item).is_none()
            && !item.is_instance_of::<PyString>()
            && item.hasattr(pyo3::intern!(item.py(), "__getitem__"))?)
    };
    match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().try_fold(false, |found, item| Ok(found || is_array(&item)?)),
        Err(_) => is_array(key),
    }
}

/// The elements of a tensor or value at an index with arrays.
pub(crate) fn index<'py>(of: &Bound<'py, PyAny>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    of.py().import("landfall.indexing")?.call_method1("index", (of, key))
}

/// The integer that an index is: anything with `__index__`, but no truth value.
fn integer(item: &Bound<'_, PyAny>) -> Option<i64> {
    if item.is_instance_of::<PyBool>() {
        return None;
    }
    item.extract::<i64>().ok()
}
