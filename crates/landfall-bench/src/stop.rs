//! Signals that end the bench.

use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether Ctrl-C or another signal asked the bench to end.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Watches for the signals from now on. The second one ends the process at once.
    pub(crate) fn watch() -> Self {
        let raised = Arc::new(AtomicBool::new(false));
        for &signal in TERM_SIGNALS {
            // Without a handler a signal still ends the bench, and the peers end when their standard input does.
            let _ = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&raised));
            let _ = flag::register(signal, Arc::clone(&raised));
        }
        Self(raised)
    }

    /// Whether a signal came.
    pub(crate) fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
