//! Statistical models of one time series. They know no other series, no files and no tensor engine.
//!
//! ```text
//!  all           many series on several threads
//!  fitted        a model that was fit: parameters, forecasts from these rows or others
//!  ets, theta    exponential smoothing; the Theta methods
//!  naive         last value, drift
//!  error         what is refused
//!  model         the models by name
//!  intermittent  demand with many zeros
//!  seasonal      classical decomposition and the test of a season
//!  simplex       a search for parameters
//!  rows          the rows that are filtered, and a prediction
//! ```
//!
//! A module imports from lower lines only. [`Fitted::new`] fits a [`Model`]; [`Fitted::forecast`] and [`Fitted::predict`] keep its parameters
//! and filter its state over the rows that they get. Nothing here draws random numbers or starts a thread but [`forecast_all`], so a
//! result depends on its series alone.
//!
//! Sources: R. J. Hyndman, A. B. Koehler, J. K. Ord, R. D. Snyder, *Forecasting with Exponential Smoothing* (2008);
//! V. Assimakopoulos, K. Nikolopoulos, *The theta model* (2000); R. J. Hyndman, B. Billah, *Unmasking the Theta method* (2003);
//! J. A. Fiorucci et al., *Models for optimising the theta method* (2016); J. D. Croston, *Forecasting and stock control for
//! intermittent demands* (1972); A. A. Syntetos, J. E. Boylan, *The accuracy of intermittent demand estimates* (2005);
//! R. H. Teunter, A. A. Syntetos, M. Z. Babai, *Intermittent demand: linking forecasting to inventory obsolescence* (2011).
#![deny(unsafe_code)]

mod all;
mod error;
mod ets;
mod fitted;
mod intermittent;
mod model;
mod naive;
mod rows;
mod seasonal;
mod simplex;
mod theta;

pub use crate::all::{Task, forecast_all};
pub use crate::error::LocalError;
pub use crate::fitted::Fitted;
pub use crate::intermittent::is_intermittent;
pub use crate::model::Model;
pub use crate::rows::Prediction;
