//! Models, optimizers and the training loop on the [`landfall`] engine.
#![deny(unsafe_code)]

pub mod checkpoint;
pub mod models;
pub mod nn;
pub mod ranks;
pub mod train;

pub use landfall_data as data;
pub use landfall_data::files;

/// The chapters of the tutorial are tests.
#[cfg(doctest)]
mod tutorial {
    #[doc = include_str!("../../../docs/tutorial/01-tensors.md")]
    mod tensors {}
    #[doc = include_str!("../../../docs/tutorial/02-graphs.md")]
    mod graphs {}
    #[doc = include_str!("../../../docs/tutorial/03-training.md")]
    mod training {}
    #[doc = include_str!("../../../docs/tutorial/04-your-own-op.md")]
    mod own_op {}
    #[doc = include_str!("../../../docs/tutorial/05-gpu.md")]
    mod gpu {}
    #[doc = include_str!("../../../docs/tutorial/06-mixed-precision.md")]
    mod mixed_precision {}
    #[doc = include_str!("../../../docs/tutorial/07-debugging.md")]
    mod debugging {}
    #[doc = include_str!("../../../docs/tutorial/09-draws-memory-threads.md")]
    mod draws_memory_threads {}
}
