//! Pretrained networks that forecast any series, of either kind: Landfall's own, and those of a Chronos.

use crate::chronos::{self, ChronosError, Group, digest};
use crate::models::zero_shot::LEVELS;
use crate::zero_shot::{self, ZeroShotError};
use landfall::Engine;
use std::borrow::Borrow;
use std::path::Path;

/// The name of the weights that the library carries. A file or directory of this name is given with its folder: `./zero-shot`.
pub const SHIPPED: &str = "zero-shot";

/// Why a pretrained network is not read, or gives no forecast.
#[derive(thiserror::Error)]
pub enum NetworkError {
    /// One of Landfall's own.
    #[error(transparent)]
    ZeroShot(#[from] ZeroShotError),
    /// A Chronos.
    #[error(transparent)]
    Chronos(#[from] ChronosError),
}

landfall::debug_as_text!(NetworkError);

/// The weights of a pretrained network.
#[derive(Debug, Clone)]
pub enum Weights {
    /// Those of [`landfall pretrain`](crate::zero_shot).
    ZeroShot(Box<zero_shot::Weights>),
    /// Those of a Chronos-2 or Chronos-Bolt.
    Chronos(Box<chronos::Weights>),
}

impl Weights {
    /// Those that the library carries.
    ///
    /// ```
    /// let weights = landfall_forecast::pretrained_network::Weights::shipped()?;
    /// assert_eq!(weights.parameters(), 1_929_192);
    /// # Ok::<(), landfall_forecast::pretrained_network::NetworkError>(())
    /// ```
    ///
    /// # Errors
    /// Weights that are damaged.
    pub fn shipped() -> Result<Self, NetworkError> {
        Ok(Self::ZeroShot(Box::new(zero_shot::Weights::shipped()?)))
    }

    /// Those of a file of `landfall pretrain`, or of a folder of a Chronos-2 or Chronos-Bolt.
    ///
    /// # Errors
    /// Weights that are not there, damaged or of something else.
    pub fn read(path: &Path) -> Result<Self, NetworkError> {
        Ok(match path.is_dir() {
            true => Self::Chronos(Box::new(chronos::Weights::read(path)?)),
            false => Self::ZeroShot(Box::new(zero_shot::Weights::read(path)?)),
        })
    }

    /// What their network is called, in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::ZeroShot(_) => SHIPPED,
            Self::Chronos(weights) => weights.network.name(),
        }
    }

    /// Rows of a series that are read at most: its last ones.
    #[must_use]
    pub fn context(&self) -> usize {
        match self {
            Self::ZeroShot(weights) => weights.network.config().context,
            Self::Chronos(weights) => weights.network.context(),
        }
    }

    /// Rows that are forecast at most.
    #[must_use]
    pub fn most_rows(&self) -> usize {
        match self {
            Self::ZeroShot(_) => zero_shot::MOST_ROWS,
            Self::Chronos(weights) => chronos::most_rows(&weights.network),
        }
    }

    /// Number of parameters.
    #[must_use]
    pub fn parameters(&self) -> usize {
        match self {
            Self::ZeroShot(weights) => weights.network.parameters().count(),
            Self::Chronos(weights) => weights.network.parameters().count(),
        }
    }

    /// Rows of a patch.
    #[must_use]
    pub fn patch(&self) -> usize {
        match self {
            Self::ZeroShot(weights) => weights.network.config().patch,
            Self::Chronos(weights) => weights.network.patch(),
        }
    }

    /// SHA-256 of options and values, in hexadecimal digits.
    #[must_use]
    pub fn sha256(&self) -> String {
        match self {
            Self::ZeroShot(weights) => {
                let values = weights.values.iter().map(|value| &value.data);
                let bytes = values.map(|data| data.iter().flat_map(|x| x.to_le_bytes()).collect());
                let options = format!("{:?}", weights.network.config()).into_bytes();
                digest(std::iter::once(options).chain(bytes))
            }
            Self::Chronos(weights) => weights.digest(),
        }
    }
}

/// A pretrained network on a device.
///
/// ```
/// use landfall::Engine;
/// use landfall_forecast::chronos::Group;
/// use landfall_forecast::pretrained_network::{Network, Weights};
///
/// let mut network = Network::new(&Engine::cpu()?, &Weights::shipped()?)?;
/// let sales = Group::of((0..48).map(|i| 100.0 + 30.0 * (i as f64 * 0.5236).sin()).collect());
/// let rows = network.quantiles(&[sales], 12)?.remove(0);
/// assert_eq!((rows.len(), rows[0].len()), (12, network.levels().len()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum Network {
    /// One of Landfall's own.
    ZeroShot(Box<zero_shot::Forecaster>),
    /// A Chronos-2 or Chronos-Bolt.
    Chronos(Box<chronos::Forecaster>),
}

impl Network {
    /// The network of these weights.
    ///
    /// # Errors
    /// Not enough memory; a device fault.
    pub fn new(engine: &Engine, weights: &Weights) -> Result<Self, NetworkError> {
        Ok(match weights {
            Weights::ZeroShot(weights) => {
                Self::ZeroShot(Box::new(zero_shot::Forecaster::new(engine, weights)?))
            }
            Weights::Chronos(weights) => Self::Chronos(Box::new(chronos::Forecaster::new(engine, weights)?)),
        })
    }

    /// What it is called, in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::ZeroShot(_) => SHIPPED,
            Self::Chronos(forecaster) => forecaster.name(),
        }
    }

    /// Whether it reads covariates.
    #[must_use]
    pub fn reads_covariates(&self) -> bool {
        match self {
            Self::ZeroShot(_) => false,
            Self::Chronos(forecaster) => forecaster.reads_covariates(),
        }
    }

    /// Rows of a series that are read at most: its last ones.
    #[must_use]
    pub fn context(&self) -> usize {
        match self {
            Self::ZeroShot(forecaster) => forecaster.context(),
            Self::Chronos(forecaster) => forecaster.context(),
        }
    }

    /// Rows that are forecast at most.
    #[must_use]
    pub fn most_rows(&self) -> usize {
        match self {
            Self::ZeroShot(_) => zero_shot::MOST_ROWS,
            Self::Chronos(forecaster) => forecaster.most_rows(),
        }
    }

    /// Levels of its quantiles, ascending.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        match self {
            Self::ZeroShot(_) => &LEVELS,
            Self::Chronos(forecaster) => forecaster.levels(),
        }
    }

    /// The rows after the last one of the targets of each group: of each row the quantiles at [`Network::levels`], which ascend. A
    /// network that reads no covariates reads the targets alone.
    ///
    /// # Errors
    /// As [`zero_shot::Forecaster::forecast`] and [`chronos::Forecaster::forecast`].
    pub fn quantiles<G: Borrow<Group>>(
        &mut self,
        groups: &[G],
        horizon: usize,
    ) -> Result<Vec<Vec<Vec<f64>>>, NetworkError> {
        match self {
            Self::ZeroShot(forecaster) => {
                let columns: Vec<&Vec<f64>> =
                    groups.iter().flat_map(|group| &group.borrow().targets).collect();
                let all = forecaster.forecast(&columns, horizon)?;
                Ok(all.into_iter().map(|rows| rows.iter().map(|row| row.to_vec()).collect()).collect())
            }
            Self::Chronos(forecaster) => {
                let mut all = forecaster.forecast(groups, horizon)?;
                // Those of the network may cross; the bounds of an interval may not.
                all.iter_mut().flatten().flatten().for_each(|row| row.sort_by(f64::total_cmp));
                Ok(all.into_iter().flatten().collect())
            }
        }
    }
}
