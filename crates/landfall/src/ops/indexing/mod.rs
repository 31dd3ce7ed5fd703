//! Elements by index: gather, scatter-add, sort, and the numbers of positions.

mod parts;

family! { gather iota scatter_add }
