//! Past windows with the errors of their forecasts, which prediction intervals are made of, and their file.

use super::RunError;
use crate::checkpoint::{File, Tensor};
use crate::data::{Panel, Series, WindowedPanel};
use landfall::{DType, HostTensor};
use std::collections::{HashMap, VecDeque};
use std::path::Path;

/// The file of a run's directory with errors of windows that its weights were fit on in the end.
pub(super) const ERRORS: &str = "errors.safetensors";

/// A window whose values are known: its last row, and the absolute scaled errors `[targets, H]` of its forecast.
#[derive(Debug, Clone)]
pub(super) struct PastWindow {
    /// [`place`] of its last row.
    pub(super) last: f64,
    pub(super) errors: Vec<f32>,
}

/// Past windows in time order.
pub(super) type Errors = VecDeque<PastWindow>;

/// A row of a series in time: milliseconds since 1970, or its number where the series has no dates.
pub(super) fn place(series: &Series, row: usize) -> f64 {
    match series.dates().and_then(|dates| dates.values().get(row)) {
        Some(date) => date.and_utc().timestamp_millis() as f64,
        None => row as f64,
    }
}

/// The place of the last row of a series of this name that is known; of all rows where nothing is said.
pub(super) fn last_known(known: Option<&Panel>, name: &str) -> f64 {
    let Some(known) = known else { return f64::INFINITY };
    let series = known.named(name);
    series.map_or(f64::NEG_INFINITY, |series| place(series, series.rows() - 1))
}

/// Adds the next window, and keeps the last ones.
pub(super) fn add(all: &mut Errors, window: PastWindow, limit: usize) {
    all.push_back(window);
    if all.len() > limit {
        all.pop_front();
    }
}

/// The smallest f32 that is not below x: an error that equals a half width must not fall outside by rounding.
pub(super) fn rounded_up(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) < x { near.next_up() } else { near }
}

/// Writes the windows of a choice into a run's directory: for each series its name, the places of their last rows `[n, 1]`, and
/// their errors `[n, targets · H]`.
pub(super) fn write(path: &Path, panel: &WindowedPanel, windows: &[Errors]) -> Result<(), RunError> {
    let mut file = File::default();
    for (i, (member, windows)) in panel.members().iter().zip(windows).enumerate() {
        file.metadata.insert(format!("series.{i}"), member.series.name().to_owned());
        if windows.is_empty() {
            continue;
        }
        let errors = windows.iter().flat_map(|w| &w.errors).map(|x| f64::from(*x)).collect();
        let last = windows.iter().map(|w| w.last).collect();
        let (n, width) = (windows.len(), windows.front().map_or(0, |w| w.errors.len()));
        for (name, dtype, shape, values) in
            [("errors", DType::F32, [n, width], errors), ("last", DType::F64, [n, 1], last)]
        {
            let tensor = HostTensor::new(dtype, shape, values).map_err(landfall::Error::from)?;
            file.tensors.insert(format!("{name}.{i}"), Tensor::from(&tensor));
        }
    }
    Ok(file.write(&path.join(ERRORS))?)
}

/// The windows in a run's directory that end with a known row, of the series of a panel.
pub(super) fn read(
    path: &Path,
    panel: &WindowedPanel,
    known: Option<&Panel>,
) -> Result<Vec<Errors>, RunError> {
    let path = path.join(ERRORS);
    if !path.exists() {
        return Err(RunError::NoErrors { path });
    }
    let file = File::read(&path)?;
    let numbers: HashMap<&str, &str> = file
        .metadata
        .iter()
        .filter_map(|(key, name)| Some((name.as_str(), key.strip_prefix("series.")?)))
        .collect();
    let only = panel.members().len() == 1 && numbers.len() == 1;
    let of = |name: &str| -> Result<Errors, RunError> {
        let number = if only { Some("0") } else { numbers.get(name).copied() };
        let tensor = |kind: &str| number.and_then(|number| file.tensors.get(&format!("{kind}.{number}")));
        let Some(errors) = tensor("errors") else { return Ok(Errors::new()) };
        let errors = errors.host().map_err(landfall::Error::from)?;
        let width = errors.spec.shape.last().max(1);
        let windows = errors.data.chunks_exact(width);
        let last = match (tensor("last"), known) {
            (Some(last), _) => last.host().map_err(landfall::Error::from)?.data,
            (None, None) => vec![f64::NEG_INFINITY; windows.len()],
            (None, Some(_)) => return Err(RunError::UndatedErrors { path: path.clone() }),
        };
        let until = last_known(known, name);
        let known = last.into_iter().zip(windows).filter(|(last, _)| *last <= until);
        Ok(known
            .map(|(last, w)| PastWindow { last, errors: w.iter().map(|x| *x as f32).collect() })
            .collect())
    };
    panel.members().iter().map(|m| of(m.series.name())).collect()
}
