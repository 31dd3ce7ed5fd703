//! The suite that is generated from the op table: an op that joins the table is tested with no line written here.

fn main() -> std::process::ExitCode {
    landfall_suite::main(landfall::ops::table)
}
