//! Fault injection: mutants of every op's launches, made mechanically, each of which something must notice.

pub(crate) mod fault;
mod mutants;
