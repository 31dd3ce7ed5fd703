//! The pretrained network of an ensemble: the one that the library carries, or one that is named.

use super::error::EnsembleError;
use crate::chronos::Group;
use crate::models::zero_shot::LEVELS;
use crate::pretrained_network::{Network, Weights};
use crate::zero_shot::{MOST_ROWS, Quantiles, quantile_at};
use landfall::Engine;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Rows that the shipped network reads at most, rows of its patches, and its parameters.
const CONTEXT: usize = 1024;
const PATCH: usize = 8;
const PARAMETERS: usize = 1_929_192;

/// How far the network of an ensemble reads and forecasts, and what that costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// Rows before a forecast that are read at most.
    pub context: usize,
    /// Rows that are forecast at most.
    pub most_rows: usize,
    /// The time of a row, in that of the shipped network on the processor.
    pub cost: f64,
}

impl Default for Reach {
    /// That of the shipped network.
    fn default() -> Self {
        Self { context: CONTEXT, most_rows: MOST_ROWS, cost: 1.0 }
    }
}

/// What is known of weights that are named for the network of an ensemble; a run keeps it, to know them again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NamedNetwork {
    /// What it is called, such as `chronos-2`.
    pub name: String,
    /// SHA-256 of its options and values.
    pub sha256: String,
    /// Rows that it reads at most.
    pub context: usize,
    /// Rows that it forecasts at most.
    pub most_rows: usize,
    /// Rows of a patch.
    pub patch: usize,
    /// Number of parameters.
    pub parameters: usize,
}

impl NamedNetwork {
    /// Reads a file of `landfall pretrain`, or a folder of a Chronos-2 or Chronos-Bolt.
    ///
    /// # Errors
    /// Weights that are not there, damaged or of something else.
    pub fn read(path: &Path) -> Result<Self, EnsembleError> {
        let weights = Weights::read(path)?;
        Ok(Self {
            name: weights.name().to_owned(),
            sha256: weights.sha256(),
            context: weights.context(),
            most_rows: weights.most_rows(),
            patch: weights.patch(),
            parameters: weights.parameters(),
        })
    }

    /// How far it reads and forecasts. On the processor its cost grows with its parameters, for each of its patches; a GPU computes
    /// so small a batch in about the time that the processor takes for the shipped network.
    #[must_use]
    pub fn reach(&self, on_gpu: bool) -> Reach {
        let parameters = self.parameters as f64 / PARAMETERS as f64;
        let cost = if on_gpu { 1.0 } else { parameters * PATCH as f64 / self.patch.max(1) as f64 };
        Reach { context: self.context, most_rows: self.most_rows, cost }
    }

    /// Refuses a path that no longer has these weights.
    ///
    /// # Errors
    /// [`EnsembleError::Weights`].
    pub fn check(&self, path: &Path) -> Result<(), EnsembleError> {
        self.weights(path).map(drop)
    }

    /// Its weights.
    fn weights(&self, path: &Path) -> Result<Weights, EnsembleError> {
        let other = |why: String| EnsembleError::Weights { path: path.to_owned(), why };
        if !path.exists() {
            return Err(other("nothing is there".to_owned()));
        }
        let weights = Weights::read(path).map_err(|why| other(why.to_string()))?;
        match weights.sha256() == self.sha256 {
            true => Ok(weights),
            false => Err(other("its options or values are not those that the run was made with".to_owned())),
        }
    }
}

/// The pretrained network of ensembles, made when it is needed first. Ensembles of the same series share one.
///
/// The network that the library carries is always computed on the processor, so that a run's forecasts are the same wherever it was
/// trained.
#[derive(Debug, Default)]
pub struct PretrainedMember {
    named: Option<(PathBuf, NamedNetwork)>,
    at: Mutex<Placed>,
}

/// Where a network computes, and the network once it is made.
#[derive(Debug, Default)]
struct Placed {
    engine: Option<Engine>,
    network: Option<Network>,
}

impl PretrainedMember {
    /// The network of the weights at this path; without one the network that the library carries.
    #[must_use]
    pub fn new(named: Option<(PathBuf, NamedNetwork)>) -> Self {
        Self { named, ..Self::default() }
    }

    /// Has a named network compute on this engine, unless it is made already.
    pub fn compute_on(&self, engine: &Engine) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if self.named.is_some() && at.network.is_none() {
            at.engine = Some(engine.clone());
        }
    }

    /// Rows before a forecast that are read at most.
    #[must_use]
    pub fn context(&self) -> usize {
        self.named.as_ref().map_or(CONTEXT, |(_, network)| network.context)
    }

    /// Makes it, unless it is made, and uses it. Where no other engine is known, it computes on so many threads.
    pub(super) fn with<T>(
        &self,
        threads: Option<usize>,
        uses: impl FnOnce(&mut Network) -> Result<T, EnsembleError>,
    ) -> Result<T, EnsembleError> {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let Placed { engine, network } = &mut *at;
        match network {
            Some(network) => uses(network),
            none => {
                let weights = match &self.named {
                    Some((path, known)) => known.weights(path)?,
                    None => Weights::shipped()?,
                };
                let processor = || threads.map_or_else(Engine::cpu, Engine::cpu_with_threads);
                let engine = engine.clone().map_or_else(processor, Ok)?;
                uses(none.insert(Network::new(&engine, &weights)?))
            }
        }
    }
}

/// The rows after these, of each series: of each row the quantiles at [`LEVELS`].
pub(super) fn quantiles(
    network: &mut Network,
    series: &[&[f64]],
    horizon: usize,
) -> Result<Vec<Vec<Quantiles>>, EnsembleError> {
    let groups: Vec<Group> = series.iter().map(|rows| Group::of(rows.to_vec())).collect();
    let all = network.quantiles(&groups, horizon)?;
    let levels = network.levels();
    let row = |row: &Vec<f64>| LEVELS.map(|level| quantile_at(levels, row, level));
    Ok(all.iter().map(|rows| rows.iter().map(row).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_shipped_network_is_so() {
        let weights = Weights::shipped().expect("weights");
        let found = (weights.context(), weights.patch(), weights.parameters(), weights.most_rows());
        assert_eq!(found, (CONTEXT, PATCH, PARAMETERS, MOST_ROWS));
    }

    #[test]
    fn a_large_network_costs_more_on_the_processor() {
        let network = |parameters, patch| NamedNetwork {
            name: "chronos-2".to_owned(),
            sha256: String::new(),
            context: 8192,
            most_rows: 1024,
            patch,
            parameters,
        };
        assert_eq!(network(PARAMETERS, PATCH).reach(false).cost, 1.0);
        assert_eq!(network(60 * PARAMETERS, 2 * PATCH).reach(false).cost, 30.0);
        assert_eq!(network(60 * PARAMETERS, 2 * PATCH).reach(true).cost, 1.0);
    }
}
