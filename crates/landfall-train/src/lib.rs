//! Models, data, optimizers and the training loop on the [`landfall`] engine.
#![deny(unsafe_code)]

pub mod data;
