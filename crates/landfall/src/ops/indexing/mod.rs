//! Elements by index: gather, scatter-add, sort, and the numbers of positions.

mod parts;
mod radix;

family! { gather iota scatter_add sort }
