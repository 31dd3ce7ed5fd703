//! CPU kernels: functions over typed views, run on the engine's threads.

mod call;
pub(crate) mod columns;
pub mod gemm;
pub mod isa;
pub(crate) mod lanes;
pub(crate) mod memory;
pub mod pack;
mod parallel;
pub(crate) mod pointwise;
mod view;

pub use call::Call;
pub(crate) use call::with_float;
pub use parallel::{Chunks, Split};
pub use view::{Row, RowMut, View, ViewMut};
