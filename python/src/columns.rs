//! Columns of data frames, on their way in and out: `landfall/frames.py` makes and reads them.

use crate::device::{Element, batches, elements};
use crate::error::Class;
use crate::failure::raised;
use arrow_array::RecordBatchReader;
use landfall_train::data::{Column, Frame, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// Named columns of equal length, in memory of the engine.
#[pyclass(frozen, module = "landfall._landfall")]
pub(crate) struct Columns(pub(crate) Frame);

/// A column as Python has it: its name, its kind, and what it is made of.
type Given<'py> = (String, String, Bound<'py, PyAny>, Option<Vec<String>>);

#[pymethods]
impl Columns {
    /// The columns of a table with `__arrow_c_stream__`.
    #[staticmethod]
    fn of_arrow(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = table.py();
        let batches = batches(table)?;
        let schema = batches.schema();
        let frame = Frame::of_batches("the frame", &schema, batches);
        frame.map(Self).map_err(|e| raised(py, &e.into()))
    }

    /// Columns of numpy's arrays: of each its name, its kind (`numbers`, `integers`, `dates` in nanoseconds since 1970 on a clock,
    /// `instants` likewise in UTC, `names` as places in a list), the array, and the list of names. `origins` is the row of the
    /// frame that each row was.
    #[staticmethod]
    #[pyo3(signature = (columns, origins=None))]
    fn of_arrays(
        py: Python<'_>,
        columns: Vec<Given<'_>>,
        origins: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let columns = columns.into_iter().map(|given| column(py, given)).collect::<PyResult<_>>()?;
        let frame = Frame::new(columns).map_err(|e| raised(py, &e.into()))?;
        let Some(origins) = origins else { return Ok(Self(frame)) };
        let rows = needed::<i64>(py, origins)?.into_iter().map(|row| u32::try_from(row).unwrap_or(u32::MAX));
        Ok(Self(frame.with_origins(rows.collect())))
    }

    /// The columns of an Arrow file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Frame::read(&path)).map(Self).map_err(|e| raised(py, &e.into()))
    }

    /// The numbers of a column as bytes of 64-bit floats, NaN where one is missing; `None` of another column.
    fn numbers<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyBytes>> {
        self.0.column(name)?.as_numbers().map(|numbers| bytes(py, &numbers))
    }

    /// The whole numbers of a column without missing ones as bytes of 64-bit integers; `None` of another column.
    fn integers<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyBytes>> {
        let integers: Option<Vec<i64>> = self.0.column(name)?.as_integers()?.iter().copied().collect();
        Some(bytes(py, &integers?))
    }

    /// The dates of a column as bytes of 64-bit nanoseconds since 1970; `None` of another column.
    fn dates<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyBytes>> {
        match self.0.column(name)?.as_dates()? {
            (counts, TimeUnit::Nanosecond) => Some(bytes(py, counts)),
            (_, TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond) => None,
        }
    }

    /// The texts of a column: bytes of 64-bit places in a list, -1 where one is missing, and the list; `None` of another column.
    fn names<'py>(&self, py: Python<'py>, name: &str) -> Option<(Bound<'py, PyBytes>, Vec<String>)> {
        let (places, list) = self.0.column(name)?.as_categories()?;
        Some((bytes(py, &places), list))
    }
}

/// Numbers as bytes, of which `numpy.frombuffer` makes an array.
pub(crate) fn bytes<'py, T: bytemuck::NoUninit>(py: Python<'py>, numbers: &[T]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, bytemuck::cast_slice(numbers))
}

fn column(py: Python<'_>, (name, kind, array, list): Given<'_>) -> PyResult<(String, Column)> {
    let column = match kind.as_str() {
        "numbers" => match elements::<f32>(&array)? {
            Some(numbers) => Column::single_numbers(&numbers),
            None => Column::numbers(needed(py, &array)?),
        },
        "integers" => Column::integers(needed(py, &array)?.into_iter().map(Some).collect()),
        "dates" | "instants" => Column::dates(needed(py, &array)?, TimeUnit::Nanosecond, kind == "instants"),
        _ => {
            let column = Column::categories(&needed(py, &array)?, &list.unwrap_or_default());
            column.ok_or_else(|| {
                Class::Index.error(py, format!("column `{name}`: a place outside of the list"))
            })?
        }
    };
    Ok((name, column))
}

/// The elements of an array that `landfall/frames.py` made.
fn needed<T: Element>(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let wrong = || Class::DType.error(py, "an array of one axis is needed, with elements of another type");
    elements(array)?.ok_or_else(wrong)
}
