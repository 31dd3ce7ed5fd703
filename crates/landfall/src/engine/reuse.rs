//! Memory reuse between values.

use crate::error::{Allocator, Error};

/// How a plan reuses memory between values. Results do not depend on it, to the last bit: the checker refuses every
/// plan in which they would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reuse {
    /// The smallest arena.
    #[default]
    Tight,
    /// Stress mode, maximal aliasing, so that races and stale reads surface: an output runs in place wherever its op's rule
    /// allows it and no later instruction reads the input, also within a larger value; every other value takes the memory that
    /// was freed last.
    Most,
    /// No reuse: each value and each instruction's scratch memory has its own allocation, no output runs in place, and no
    /// producer writes into a packed buffer. Updates stay in place. Memory checkers then see the bounds of each value.
    Nothing,
}

impl Reuse {
    /// The value of `LANDFALL_REUSE`; [`Reuse::Tight`] if it is not set.
    ///
    /// # Errors
    /// [`Error::Setting`] for another value than `most` and `nothing`.
    pub(crate) fn asked() -> Result<Self, Error> {
        match std::env::var("LANDFALL_REUSE").as_deref() {
            Err(_) => Ok(Self::Tight),
            Ok("most") => Ok(Self::Most),
            Ok("nothing") => Ok(Self::Nothing),
            Ok(other) => Err(Error::Setting {
                name: "LANDFALL_REUSE",
                value: other.to_owned(),
                expected: "most, nothing or not set",
            }),
        }
    }
}

impl Allocator {
    /// How the engine's programs reuse memory.
    pub(crate) fn reuse(self) -> Reuse {
        match self {
            Self::NeverReuse | Self::Shuffled(_) => Reuse::Nothing,
            Self::ReuseAtOnce => Reuse::Most,
        }
    }
}
