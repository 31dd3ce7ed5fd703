//! Chronos-2 and Chronos-Bolt from Python, for `landfall/chronos.py`.

use crate::columns::bytes;
use crate::engines;
use crate::failure::{internal, not_exported, raised};
use landfall::{DType, Engine};
use landfall_forecast::ForecastError;
use landfall_forecast::chronos::{
    Adapter, Categories, ChronosError, FineTuning, FineTuningOptions, Forecaster, Group, Known, Point,
    Sampler, Weights, ordinal, target_means,
};
use landfall_forecast::export::{self, ExportError, Pass};
use landfall_forecast::run::{Device, SettingsError, on_device};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Rows of f64, as bytes.
type Row<'py> = Bound<'py, PyBytes>;
/// Targets, past covariates, covariates whose future is known.
type Given<'py> = (Vec<Row<'py>>, Vec<Row<'py>>, Vec<(Row<'py>, Row<'py>)>);

/// Where weights are.
enum Source {
    /// In a folder, with an adapter in another one.
    Folders(PathBuf, Option<PathBuf>),
    /// In memory.
    Memory(Box<Weights>),
}

impl Source {
    fn weights(&self) -> Result<Weights, ChronosError> {
        match self {
            Self::Memory(weights) => Ok(Weights::clone(weights)),
            Self::Folders(weights, None) => Weights::read(weights),
            Self::Folders(weights, Some(adapter)) => Weights::read(weights)?.merged(&Adapter::read(adapter)?),
        }
    }
}

/// What a training leaves beside its weights.
struct Trained {
    points: Vec<Point>,
    chosen: Option<(usize, f64)>,
    sampler: Sampler,
    adapter: Option<Adapter>,
}

/// A forecaster with the weights of a Chronos-2 or Chronos-Bolt.
#[pyclass(name = "_Chronos", module = "landfall._landfall", frozen)]
pub(crate) struct PyChronos {
    engine: Engine,
    dtype: DType,
    source: Source,
    forecaster: Mutex<Forecaster>,
    device: Option<String>,
    trained: Option<Trained>,
}

#[pymethods]
impl PyChronos {
    #[new]
    #[pyo3(signature = (folder, adapter, device, threads, bf16))]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        adapter: Option<PathBuf>,
        device: &str,
        threads: Option<usize>,
        bf16: bool,
    ) -> PyResult<Self> {
        engines::preload(py)?;
        let dtype = if bf16 { DType::BF16 } else { DType::F32 };
        let made = || -> Result<Self, ForecastError> {
            let source = Source::Folders(folder, adapter);
            let weights = source.weights()?;
            let device = device
                .parse::<Device>()
                .map_err(|why| SettingsError::Keyword { key: "device".to_owned(), why })?;
            let placed = on_device(device, threads, |engine| Ok(engine.clone()))?;
            let forecaster = Mutex::new(Forecaster::with_dtype(&placed.made, &weights, dtype)?);
            let device = placed.note();
            Ok(Self { engine: placed.made, dtype, source, forecaster, device, trained: None })
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
        let groups = read(&groups);
        let all = py.detach(|| self.locked().forecast(&groups, horizon));
        let all = all.map_err(|why| failed(py, why))?;
        let one = |rows: &Vec<Vec<f64>>| bytes(py, &rows.concat());
        Ok(all.iter().map(|targets| targets.iter().map(one).collect()).collect())
    }

    /// Writes the folder of the authors' form.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        py.detach(|| self.source.weights()?.write(&folder)).map_err(|why| failed(py, why))
    }

    /// Writes a pass as an ONNX model.
    fn export_onnx(
        &self,
        py: Python<'_>,
        path: PathBuf,
        context: Option<usize>,
        horizon: Option<usize>,
        members: usize,
    ) -> PyResult<()> {
        let write = || -> Result<(), ExportError> {
            let weights = self.source.weights()?;
            let rows = context.unwrap_or(weights.network.context());
            let horizon = horizon.unwrap_or(weights.network.pass());
            export::chronos_onnx(&weights, Pass { rows, horizon, members }, &path).map(drop)
        };
        py.detach(write).map_err(|why| not_exported(py, why))
    }

    /// Trains these weights by options in JSON and gives a forecaster with what comes of it. `told` is called with every point of the curve,
    /// in JSON; a signal, and an exception of it, end the training between steps.
    fn fit(
        &self,
        py: Python<'_>,
        both: (Vec<Given<'_>>, Vec<Given<'_>>),
        options: &str,
        folder: Option<PathBuf>,
        told: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options: FineTuningOptions =
            serde_json::from_str(options).map_err(|e| internal(py, &format!("options: {e}")))?;
        let (groups, validation) = (read(&both.0), read(&both.1));
        let mut exception: Option<PyErr> = None;
        let train = || -> Result<Option<Self>, ChronosError> {
            let weights = self.source.weights()?;
            let folder = folder.as_deref();
            let mut training = FineTuning::new(&self.engine, &weights, options, groups, &validation, folder)?;
            let raised = RefCell::new(None);
            let look = |look: &dyn Fn(Python<'_>) -> PyResult<()>| {
                if raised.borrow().is_none()
                    && let Err(e) = Python::attach(look)
                {
                    *raised.borrow_mut() = Some(e);
                }
                raised.borrow().is_some()
            };
            let stop = || look(&|py| py.check_signals());
            let each = |point: &Point| {
                let text = json!(point).to_string();
                look(&|py| told.as_ref().map_or(Ok(()), |told| told.call1(py, (text.as_str(),)).map(drop)));
            };
            training.run(stop, each)?;
            exception = raised.into_inner();
            if exception.is_some() {
                return Ok(None);
            }
            let (weights, adapter) = (training.weights()?, training.adapter()?);
            let (points, chosen) = (training.points().to_vec(), training.chosen());
            let trained = Trained { points, chosen, sampler: training.sampler().clone(), adapter };
            // Its memory goes to the forecaster.
            drop(training);
            let forecaster = Mutex::new(Forecaster::with_dtype(&self.engine, &weights, self.dtype)?);
            Ok(Some(Self {
                engine: self.engine.clone(),
                dtype: self.dtype,
                source: Source::Memory(Box::new(weights)),
                forecaster,
                device: self.device.clone(),
                trained: Some(trained),
            }))
        };
        let made = py.detach(train);
        match (exception, made) {
            (Some(e), _) => Err(e),
            (None, Ok(Some(made))) => Ok(made),
            (None, Ok(None)) => Err(internal(py, "the training stopped and nothing stopped it")),
            (None, Err(why)) => Err(failed(py, why)),
        }
    }

    /// The curve of its training in JSON, and the step and loss that validation chose.
    fn curve(&self, py: Python<'_>) -> PyResult<(String, Option<(usize, f64)>)> {
        let trained = self.trained(py)?;
        Ok((json!(trained.points).to_string(), trained.chosen))
    }

    /// The windows of a step of its training: group and first row ahead.
    fn windows(&self, py: Python<'_>, step: usize) -> PyResult<Vec<(usize, usize)>> {
        let windows = self.trained(py)?.sampler.windows(step);
        Ok(windows.into_iter().map(|window| (window.group, window.at)).collect())
    }

    /// Writes the adapter, if one was trained; whether it was.
    fn save_adapter(&self, py: Python<'_>, folder: PathBuf) -> PyResult<bool> {
        let Some(adapter) = &self.trained(py)?.adapter else { return Ok(false) };
        py.detach(|| adapter.write(&folder)).map_err(|why| failed(py, why))?;
        Ok(true)
    }
}

impl PyChronos {
    fn locked(&self) -> std::sync::MutexGuard<'_, Forecaster> {
        // A forecast that failed leaves nothing behind but programs.
        self.forecaster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trained(&self, py: Python<'_>) -> PyResult<&Trained> {
        self.trained.as_ref().ok_or_else(|| internal(py, "it was not trained"))
    }
}

fn failed(py: Python<'_>, why: ChronosError) -> PyErr {
    raised(py, &ForecastError::from(why).into())
}

/// Groups of rows as bytes.
fn read(groups: &[Given<'_>]) -> Vec<Group> {
    let rows = |all: &[Row<'_>]| all.iter().map(|row| numbers(row)).collect();
    let of = |(targets, past, known): &Given<'_>| Group {
        targets: rows(targets),
        past: rows(past),
        known: known
            .iter()
            .map(|(past, future)| Known { past: numbers(past), future: numbers(future) })
            .collect(),
    };
    groups.iter().map(of).collect()
}

/// The authors' adapter in JSON.
#[pyfunction(name = "_low_rank")]
pub(crate) fn low_rank() -> String {
    json!(FineTuningOptions::low_rank()).to_string()
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
