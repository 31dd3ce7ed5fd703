//! Elements in another order or place, unchanged.

pub(crate) mod concat;
pub(crate) mod copies;
pub(crate) mod pad_edge;

pub use concat::Concat;
pub use copies::{Copy, Fold, Pack, Pad};
pub use pad_edge::PadEdge;
