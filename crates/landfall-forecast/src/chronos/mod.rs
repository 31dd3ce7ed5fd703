//! Forecasts by the weights of Chronos-2 and Chronos-Bolt, from the folders that their authors' package writes, and the training of a Chronos-2
//! on series of one's own.
//!
//! ```no_run
//! use landfall::Engine;
//! use landfall_forecast::chronos::{Forecaster, Group, Weights};
//! let weights = Weights::read("chronos-2".as_ref())?; // config.json and model.safetensors
//! let mut forecaster = Forecaster::new(&Engine::cpu()?, &weights)?;
//! let sales = Group::of(vec![112.0, 118.0, 132.0, 129.0, 121.0, 135.0]);
//! let rows = forecaster.forecast(&[sales], 12)?.remove(0).remove(0);
//! assert_eq!((rows.len(), rows[0].len()), (12, forecaster.levels().len()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod config;
mod encode;
mod error;
mod fine_tuning;
mod folder;
mod forecaster;
mod header;
mod mixture;
mod options;
mod windows;

pub use crate::zero_shot::Verdict;
pub use adapter::Adapter;
pub use config::is_chronos;
pub use encode::{Categories, ordinal, target_means};
pub use error::ChronosError;
pub use fine_tuning::{FineTuning, Point};
pub use folder::Weights;
pub(crate) use folder::digest;
pub(crate) use forecaster::most_rows;
pub use forecaster::{Forecaster, Group, Known};
pub use options::FineTuningOptions;
pub use windows::{Sampler, Window};
