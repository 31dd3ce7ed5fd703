//! Mixture of experts: routing, permutations of rows, products by groups of rows.

pub(crate) mod routing;

pub use routing::Index;

family! { grouped permute route_map sort_chunks top_k unpermute }
