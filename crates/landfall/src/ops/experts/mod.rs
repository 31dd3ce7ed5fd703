//! Mixture of experts: routing, permutations of rows, products by groups of rows.

pub(crate) mod grouped;
pub(crate) mod permute;
pub(crate) mod route_map;
pub(crate) mod routing;
pub(crate) mod sort_chunks;
pub(crate) mod top_k;
pub(crate) mod unpermute;

pub use grouped::{GroupedMatMul, GroupedMatMulGrad};
pub use permute::Permute;
pub use route_map::RouteMap;
pub use routing::Index;
pub use sort_chunks::{ChunkMap, SortChunks};
pub use top_k::{TopK, TopKGrad};
pub use unpermute::{PairProbs, Unpermute, UnpermuteGrad};
