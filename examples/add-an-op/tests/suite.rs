//! Every property of the engine's own ops, checked for this crate's.

use add_an_op::{Mish, ScaleRows};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    landfall_suite::main(|| vec![Arc::new(Mish), Arc::new(ScaleRows::default())])
}
