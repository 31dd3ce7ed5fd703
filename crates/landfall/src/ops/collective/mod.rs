//! Ops that the ranks of a world compute together ([`World`](crate::World)). Every rank calls them in the same order with
//! operands of the same dtypes and shapes; a rank that does not come is an error on all ranks. In a world of one rank, where an
//! engine is unless it joins another, each is a copy.

mod cuda;
mod exchange;

family! { all_gather all_reduce all_to_all broadcast reduce_scatter }
