//! Chronos-2 from Python, for `landfall/chronos.py`.

use crate::columns::bytes;
use crate::engines;
use crate::failure::raised;
use landfall::DType;
use landfall_forecast::ForecastError;
use landfall_forecast::chronos::{
    Categories, ChronosError, Forecaster, Group, Known, Weights, ordinal, target_means,
};
use landfall_forecast::run::{Device, SettingsError, on_device};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Rows of f64, as bytes.
type Row<'py> = Bound<'py, PyBytes>;
/// Targets, past covariates, covariates whose future is known.
type Given<'py> = (Vec<Row<'py>>, Vec<Row<'py>>, Vec<(Row<'py>, Row<'py>)>);

/// A forecaster with the weights of a Chronos-2.
#[pyclass(name = "_Chronos", module = "landfall._landfall", frozen)]
pub(crate) struct PyChronos {
    forecaster: Mutex<Forecaster>,
    device: Option<String>,
}

#[pymethods]
impl PyChronos {
    #[new]
    #[pyo3(signature = (folder, device, threads, bf16))]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        device: &str,
        threads: Option<usize>,
        bf16: bool,
    ) -> PyResult<Self> {
        engines::preload(py)?;
        let dtype = if bf16 { DType::BF16 } else { DType::F32 };
        let made = || -> Result<Self, ForecastError> {
            let weights = Weights::read(&folder)?;
            let device = device
                .parse::<Device>()
                .map_err(|why| SettingsError::Keyword { key: "device".to_owned(), why })?;
            let placed = on_device(device, threads, |engine| Ok(engine.clone()))?;
            let forecaster = Forecaster::with_dtype(&placed.made, &weights, dtype)?;
            Ok(Self { forecaster: Mutex::new(forecaster), device: placed.note() })
        };
        py.detach(made).map_err(|why| raised(py, &why.into()))
    }

    /// Levels of the quantiles.
    #[getter]
    fn levels(&self) -> Vec<f64> {
        self.locked().levels().to_vec()
    }

    /// Rows that are read at most.
    #[getter]
    fn context(&self) -> usize {
        self.locked().context()
    }

    /// The device in one line, where there is something to say of it.
    #[getter]
    fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// For each group and target its quantiles, rows × levels, as bytes of f64.
    fn forecast<'py>(
        &self,
        py: Python<'py>,
        groups: Vec<Given<'py>>,
        horizon: usize,
    ) -> PyResult<Vec<Vec<Bound<'py, PyBytes>>>> {
        let rows = |all: &[Row<'_>]| all.iter().map(|row| numbers(row)).collect();
        let of = |(targets, past, known): &Given<'_>| Group {
            targets: rows(targets),
            past: rows(past),
            known: known
                .iter()
                .map(|(past, future)| Known { past: numbers(past), future: numbers(future) })
                .collect(),
        };
        let groups: Vec<Group> = groups.iter().map(of).collect();
        let all = py.detach(|| self.locked().forecast(&groups, horizon));
        let all = all.map_err(|why: ChronosError| raised(py, &ForecastError::from(why).into()))?;
        let one = |rows: &Vec<Vec<f64>>| bytes(py, &rows.concat());
        Ok(all.iter().map(|targets| targets.iter().map(one).collect()).collect())
    }
}

impl PyChronos {
    fn locked(&self) -> std::sync::MutexGuard<'_, Forecaster> {
        // A forecast that failed leaves nothing behind but programs.
        self.forecaster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The numbers of bytes.
fn numbers(bytes: &Bound<'_, PyBytes>) -> Vec<f64> {
    let each = bytes.as_bytes().chunks_exact(size_of::<f64>());
    each.map(|own| f64::from_ne_bytes(own.try_into().unwrap_or_default())).collect()
}

/// A categorical covariate as means of the target ([`target_means`]).
#[pyfunction(name = "_target_means")]
pub(crate) fn means(
    target: Vec<f64>,
    past: Vec<Option<String>>,
    future: Vec<Option<String>>,
) -> (Vec<f64>, Vec<f64>) {
    target_means(&target, &past, &future)
}

/// A categorical covariate of all groups as places ([`ordinal`]).
#[pyfunction(name = "_ordinal")]
pub(crate) fn places(all: Vec<Categories<String>>) -> Vec<(Vec<f64>, Vec<f64>)> {
    ordinal(&all)
}
