//! Views by index: `x[1, :, None, ..., ::2]`.

use crate::error::{Class, Raise};
use landfall::View;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PySlice, PyTuple};

/// The view that an index names.
pub(super) fn index(view: &View, key: &Bound<'_, PyAny>) -> PyResult<View> {
    let py = key.py();
    let items: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![key.clone()],
    };
    let rank = view.shape().rank();
    let is_ellipsis = |item: &Bound<'_, PyAny>| item.is_instance_of::<PyEllipsis>();
    let named = items.iter().filter(|item| !item.is_none() && !is_ellipsis(item)).count();
    let refused =
        |class: Class, why: String| Err(class.error(py, format!("index of {}: {why}", view.spec())));
    if named > rank {
        return refused(Class::Index, format!("it names {named} axes, the tensor has {rank}"));
    }
    if items.iter().filter(|item| is_ellipsis(item)).count() > 1 {
        return refused(Class::Index, "it has more than one ...".to_owned());
    }
    let (mut out, mut axis) = (view.clone(), 0);
    for item in &items {
        if item.is_none() {
            out = out.unsqueeze(axis).raised(py)?;
            axis += 1;
        } else if is_ellipsis(item) {
            axis += rank - named;
        } else if let Ok(slice) = item.cast::<PySlice>() {
            let size = out.shape().dims()[axis];
            let range = slice.indices(size as isize)?;
            let Ok(step) = usize::try_from(range.step) else {
                return refused(
                    Class::Index,
                    format!("slice {} has a negative step; a tensor lies forwards", super::text(item)),
                );
            };
            let start = usize::try_from(range.start).unwrap_or(0);
            out = out.strided_slice(axis, start, range.slicelength, step).raised(py)?;
            axis += 1;
        } else if let Some(at) = integer(item) {
            let size = out.shape().dims()[axis];
            let from_front = if at < 0 { at.checked_add(size as i64) } else { Some(at) };
            let Some(at) =
                from_front.and_then(|at| usize::try_from(at).ok()).filter(|&from_front| from_front < size)
            else {
                return refused(Class::Index, format!("{at} is out of range of axis {axis} of size {size}"));
            };
            out = out.slice(axis, at, 1).and_then(|row| row.squeeze(axis)).raised(py)?;
        } else {
            return refused(
                Class::Argument,
                format!(
                    "{} is neither an integer nor a slice, None or ...; rows by a tensor of indices are ops.gather(x, indices)",
                    super::text(item)
                ),
            );
        }
    }
    Ok(out)
}

/// The integer that an index is: anything with `__index__`, but no truth value.
fn integer(item: &Bound<'_, PyAny>) -> Option<i64> {
    if item.is_instance_of::<PyBool>() {
        return None;
    }
    item.extract::<i64>().ok()
}
