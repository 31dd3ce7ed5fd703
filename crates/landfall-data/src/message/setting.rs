//! How messages name settings: each door has a spelling of its own.

use std::cell::Cell;
use std::fmt;

/// How a door writes the name of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spelling {
    /// As a flag of a program: `--max-steps`.
    #[default]
    Flag,
    /// As a keyword of a language: `max_steps`.
    Keyword,
}

thread_local! {
    static SPELLING: Cell<Spelling> = const { Cell::new(Spelling::Flag) };
}

impl Spelling {
    /// Does work on this thread in which messages are written with this spelling.
    ///
    /// ```
    /// use landfall_data::{Setting, Spelling};
    /// let advice = || format!("give a smaller {}", Setting("max-steps"));
    /// assert_eq!(advice(), "give a smaller --max-steps");
    /// assert_eq!(Spelling::Keyword.within(advice), "give a smaller max_steps");
    /// ```
    pub fn within<T>(self, work: impl FnOnce() -> T) -> T {
        /// Puts the spelling back, also after a panic.
        struct Before(Spelling);
        impl Drop for Before {
            fn drop(&mut self) {
                SPELLING.set(self.0);
            }
        }
        let _before = Before(SPELLING.replace(self));
        work()
    }

    /// The spelling of this thread's door.
    #[must_use]
    pub fn now() -> Self {
        SPELLING.get()
    }
}

/// A setting in a message, by its name in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting(pub &'static str);

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Spelling::now() {
            Spelling::Flag => write!(f, "--{}", self.0),
            Spelling::Keyword => f.write_str(&self.0.replace('-', "_")),
        }
    }
}
