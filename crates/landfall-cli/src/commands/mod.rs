//! The commands.

pub(crate) mod bench;
pub(crate) mod evaluate;
pub(crate) mod forecast;
pub(crate) mod plan;
pub(crate) mod train;

use crate::error::CliError;
use landfall::Engine;
use landfall_train::data::{Baseline, DataError, Fill, Scaler, Segment, Segments, Series, baseline};
use landfall_train::run::SettingsError;

/// An engine on the processor.
fn cpu(threads: Option<usize>) -> Result<Engine, CliError> {
    match threads {
        None => Ok(Engine::cpu()?),
        Some(n @ 1..=1024) => Ok(Engine::cpu_with_threads(n)?),
        Some(n) => {
            let rule = "it must be 1 to 1024";
            Err(SettingsError::Range { key: "--threads", value: n.to_string(), rule }.into())
        }
    }
}

/// A fill rule by its name.
fn fill(name: Option<&String>) -> Result<Option<Fill>, DataError> {
    name.map(|n| n.parse()).transpose()
}

/// A simple forecast's name and its scores on the test windows.
type Scored = (String, landfall_train::data::Scores);

/// Last value and, where a season fits into the context, seasonal naive.
fn simple_forecasts(
    series: &Series,
    scaler: &Scaler,
    segments: &Segments,
    period: usize,
    batch: usize,
) -> Result<Vec<Scored>, DataError> {
    let windows = segments.windows(Segment::Test);
    let mut all = vec![("last-value".to_owned(), Baseline::LastValue)];
    if period <= windows.context() {
        all.push((format!("seasonal-naive ({period})"), Baseline::SeasonalNaive { period }));
    }
    all.into_iter().map(|(name, b)| Ok((name, baseline::score(b, series, scaler, windows, batch)?))).collect()
}
