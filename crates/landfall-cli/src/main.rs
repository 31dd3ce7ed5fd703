//! The program `landfall`.
#![deny(unsafe_code)]
fn main() {}
