//! Fault injection: mutants of every op's launches, made mechanically, each of which something must notice.

mod fault;
mod mutants;
