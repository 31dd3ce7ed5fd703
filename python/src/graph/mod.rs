//! Traced functions: `trace` records their calls, `value` is what they compute with, `axes` its axes, `method` its methods by name, `beside`
//! the numbers and arrays beside values, `minimisation` updates parameters by an `optimizer`, `program` runs them, `train` trains them; `files`
//! keeps what they learned.

pub(crate) mod axes;
pub(crate) mod beside;
pub(crate) mod files;
pub(crate) mod method;
pub(crate) mod minimisation;
pub(crate) mod optimizer;
pub(crate) mod program;
pub(crate) mod trace;
pub(crate) mod train;
pub(crate) mod value;
