//! Random numbers, a function of a seed and a position.

family! { chain distributions dropout }
