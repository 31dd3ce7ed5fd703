//! Signals that end a run after its step, and one that shall not end the program at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Raised by Ctrl-C, SIGTERM (Slurm, docker stop) and SIGHUP (a closed terminal), and by what Windows has in their place.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Watches for the signals from now on. The second one ends the process at once. Where a handler cannot be installed
    /// the signal still ends the run, only without a checkpoint.
    pub(crate) fn watch() -> Self {
        let signal = Arc::new(AtomicUsize::new(0));
        system::watch(&signal);
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
    system::survive_file_limits();
}

#[cfg(unix)]
mod system {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::flag;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    pub(super) fn watch(signal: &Arc<AtomicUsize>) {
        let raised = Arc::new(AtomicBool::new(false));
        for number in [SIGINT, SIGTERM, SIGHUP] {
            let _ = flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&raised));
            let _ = flag::register(number, Arc::clone(&raised));
            let _ = flag::register_usize(number, Arc::clone(signal), number.unsigned_abs() as usize);
        }
    }

    pub(super) fn survive_file_limits() {
        let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Events of the console, by the numbers of the signals that they stand for. Handlers of C's `signal` would not do: not every
/// C library of Windows says which handler there was before, and none hears of a console that closes.
#[cfg(windows)]
mod system {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use tokio::runtime::Builder;
    use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};

    const SIGHUP: usize = 1;
    const SIGINT: usize = 2;
    const SIGTERM: usize = 15;

    pub(super) fn watch(signal: &Arc<AtomicUsize>) {
        let signal = Arc::clone(signal);
        let (Ok(runtime), Ok(mut interrupt), Ok(mut end), Ok(mut close), Ok(mut shutdown)) =
            (Builder::new_current_thread().build(), ctrl_c(), ctrl_break(), ctrl_close(), ctrl_shutdown())
        else {
            return;
        };
        std::thread::spawn(move || {
            loop {
                // While a console closes, tokio's handler does not return: Windows waits some seconds for the checkpoint.
                let number = runtime.block_on(poll_fn(|context| {
                    let came = [
                        (SIGINT, interrupt.poll_recv(context)),
                        (SIGTERM, end.poll_recv(context)),
                        (SIGHUP, close.poll_recv(context)),
                        (SIGTERM, shutdown.poll_recv(context)),
                    ];
                    let first = came.into_iter().find(|(_, event)| event.is_ready());
                    first.map_or(Poll::Pending, |(number, _)| Poll::Ready(number))
                }));
                if signal.swap(number, Ordering::Relaxed) != 0 {
                    std::process::exit(i32::try_from(128 + number).unwrap_or(130));
                }
            }
        });
    }

    pub(super) fn survive_file_limits() {}
}
