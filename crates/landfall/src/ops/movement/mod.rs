//! Elements in another order or place, unchanged.

family! { concat copies pad_edge }
