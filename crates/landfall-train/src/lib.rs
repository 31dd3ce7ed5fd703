//! Models, data, optimizers and the training loop on the [`landfall`] engine.
#![deny(unsafe_code)]

pub mod checkpoint;
pub mod choice;
pub mod data;
pub mod models;
pub mod nn;
pub mod report;
pub mod run;
pub mod train;
