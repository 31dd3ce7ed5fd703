//! The program `landfall`: trains forecasters from a CSV, scores them, and forecasts.
#![deny(unsafe_code)]

use std::process::ExitCode;

/// Stack of the program, whatever `ulimit -s` leaves of that of the process.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let program = || landfall_cli::program(std::env::args_os());
    let thread = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK).spawn(program);
    match thread {
        // The program catches its own panics.
        Ok(thread) => ExitCode::from(thread.join().unwrap_or(1)),
        Err(why) => {
            eprintln!(
                "error: no thread with a stack of 8 MiB can be started: {why}; raise the limit of memory"
            );
            ExitCode::from(1)
        }
    }
}
