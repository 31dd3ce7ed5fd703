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

    /// A setting by its key in a file, `max-steps`, with its value where one is said: `max-steps = 100`, `--max-steps 100`,
    /// `max_steps=100`.
    #[must_use]
    pub fn setting(self, key: &str, value: Option<&str>) -> String {
        let name = match self {
            // A table of a file, for the program too.
            Self::Key | Self::Flag if key == "network" => return "[network]".to_owned(),
            Self::Key => key.to_owned(),
            Self::Flag => format!("--{key}"),
            Self::Keyword => key.replace('-', "_"),
        };
        match (self, value) {
            (_, None) => name,
            (Self::Key, Some(value)) => format!("{name} = {}", self.literal(value)),
            (Self::Flag, Some(value)) => format!("{name} {value}"),
            (Self::Keyword, Some(value)) => format!("{name}={}", self.literal(value)),
        }
    }

    /// An option of the network by its key, `d-model`, with its value where one is said.
    #[must_use]
    pub fn option(self, key: &str, value: Option<&str>) -> String {
        match (self, value) {
            (Self::Key | Self::Flag, _) => format!("[network] {}", Self::Key.setting(key, value)),
            (Self::Keyword, None) => format!("network[\"{}\"]", key.replace('-', "_")),
            (Self::Keyword, Some(value)) => {
                format!("network={{\"{}\": {}}}", key.replace('-', "_"), self.literal(value))
            }
        }
    }

    /// A value as the language of the door writes it: a number, a truth value, a list of numbers, or a text.
    fn literal(self, value: &str) -> String {
        let number = |text: &str| text.parse::<f64>().is_ok();
        match (self, value) {
            (Self::Keyword, "true") => "True".to_owned(),
            (Self::Keyword, "false") => "False".to_owned(),
            (_, "true" | "false") => value.to_owned(),
            _ if number(value) => value.to_owned(),
            _ if value.split(',').all(number) => format!("[{}]", value.replace(',', ", ")),
            _ => format!("\"{value}\""),
        }
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
        f.write_str(&Spelling::now().setting(self.0, None))
    }
}
