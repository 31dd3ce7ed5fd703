//! How messages name settings: each door has a spelling of its own.

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;

/// How a door writes the name of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spelling {
    /// As a key of a configuration file: `max-steps`.
    #[default]
    Key,
    /// As a flag of a program: `--max-steps`.
    Flag,
    /// As a keyword of a language: `max_steps`.
    Keyword,
}

/// That of a process which is a program, whatever the thread.
static OF_PROCESS: OnceLock<Spelling> = OnceLock::new();

thread_local! {
    static SPELLING: Cell<Option<Spelling>> = const { Cell::new(None) };
}

impl Spelling {
    /// Does work on this thread in which messages are written with this spelling.
    ///
    /// ```
    /// use landfall_data::{Setting, Spelling};
    /// let advice = || format!("give a smaller {}", Setting("max-steps"));
    /// assert_eq!(advice(), "give a smaller max-steps");
    /// assert_eq!(Spelling::Keyword.within(advice), "give a smaller max_steps");
    /// assert_eq!(Spelling::Flag.within(advice), "give a smaller --max-steps");
    /// ```
    pub fn within<T>(self, work: impl FnOnce() -> T) -> T {
        /// Puts the spelling back, also after a panic.
        struct Before(Option<Spelling>);
        impl Drop for Before {
            fn drop(&mut self) {
                SPELLING.set(self.0);
            }
        }
        let _before = Before(SPELLING.replace(Some(self)));
        work()
    }

    /// Makes it the spelling of a process: what a program says first. A second call changes nothing.
    pub fn of_process(self) {
        OF_PROCESS.get_or_init(|| self);
    }

    /// The spelling of this thread's work, else that of the process.
    #[must_use]
    pub fn now() -> Self {
        SPELLING.get().or_else(|| OF_PROCESS.get().copied()).unwrap_or_default()
    }
}

/// A setting in a message, by its name in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting(pub &'static str);

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Spelling::now() {
            Spelling::Key => f.write_str(self.0),
            Spelling::Flag => write!(f, "--{}", self.0),
            Spelling::Keyword => f.write_str(&self.0.replace('-', "_")),
        }
    }
}
