//! Signals that end a run after its step, and one that shall not end the program at all.

#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGXFSZ};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(unix)]
const ENDING: &[i32] = &[SIGINT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const ENDING: &[i32] = &[SIGINT, SIGTERM];

/// Raised by Ctrl-C, SIGTERM (Slurm, docker stop) and SIGHUP (a closed terminal).
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Watches for the signals from now on. The second one ends the process at once. Where a handler cannot be installed
    /// the signal still ends the run, only without a checkpoint.
    pub(crate) fn watch() -> Self {
        let (signal, raised) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for &number in ENDING {
            let _ = flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&raised));
            let _ = flag::register(number, Arc::clone(&raised));
            let _ = flag::register_usize(number, Arc::clone(&signal), number.unsigned_abs() as usize);
        }
        Self(signal)
    }

    /// Whether a signal came.
    pub(crate) fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The exit code of a program that a signal ended: 128 and its number. Where the signal came to another process that trains
    /// the same run, it is that of an interrupt.
    pub(crate) fn code(&self) -> u8 {
        match self.0.load(Ordering::Relaxed) {
            0 => 130,
            signal => u8::try_from(128 + signal).unwrap_or(130),
        }
    }
}

/// A write beyond `ulimit -f` fails with an error that names the file, instead of killing the program.
pub(crate) fn survive_file_limits() {
    #[cfg(unix)]
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}
