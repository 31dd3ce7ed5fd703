//! The layout of memory that another library describes.

use crate::error::Class;
use landfall::{Layout, MAX_RANK, Rule, Shape};
use pyo3::prelude::*;

/// The layout of another library's array. Its strides may be anything along axes with fewer than two elements.
pub(super) fn layout(py: Python<'_>, sizes: &[i64], strides: Option<&[i64]>) -> PyResult<Layout> {
    let refused = |class: Class, why: String| Err(class.error(py, why));
    let shape = sizes.iter().map(|&d| usize::try_from(d)).collect::<Result<Vec<_>, _>>();
    let Ok(Some(shape)) = shape.map(|sizes| Shape::new(&sizes)) else {
        return refused(
            Class::Shape,
            format!(
                "the array has shape {sizes:?}; a tensor has at most {MAX_RANK} axes, none of a negative size"
            ),
        );
    };
    let large = |rule: Rule| Class::Shape.error(py, format!("the array has shape {sizes:?}: {rule}"));
    let contiguous = Layout::contiguous(shape.bounded().map_err(large)?);
    let Some(given) = strides.filter(|_| shape.elements() > 0) else { return Ok(contiguous) };
    let mut strides = [0; MAX_RANK];
    for (axis, (&size, &stride)) in shape.dims().iter().zip(given).enumerate() {
        strides[axis] = match usize::try_from(stride) {
            _ if size < 2 => contiguous.strides()[axis],
            Ok(stride) => stride,
            Err(_) => {
                return refused(
                    Class::Exchange,
                    format!(
                        "the array of shape {sizes:?} has strides {given:?}: a negative stride, as of x[::-1]; make a \
                         copy that lies forwards, numpy.ascontiguousarray(x) or torch.flip(x, dims)"
                    ),
                );
            }
        };
    }
    Layout::strided(shape, &strides[..shape.rank()], 0).map_err(|rule| {
        Class::Exchange.error(py, format!("the array of shape {sizes:?} has strides {given:?}: {rule}"))
    })
}

/// An address for memory of no bytes, which a library may have put nowhere.
pub(super) const NOWHERE: u64 = 64;
