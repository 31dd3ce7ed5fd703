//! What a rank says of a call, so that ranks whose programs differ are told apart from slow ones.

use crate::values::RankFault;
use std::fmt;

/// A call that all ranks make together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The op with its attributes and operands, or what the host agrees on.
    pub what: String,
    /// Its number among the calls of the rank, from 1.
    pub number: u64,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (call {})", self.what, self.number)
    }
}

impl Signature {
    /// Checks that another rank makes this call.
    ///
    /// # Errors
    /// [`RankFault::Differs`].
    pub fn check(&self, (rank, here): (usize, usize), other: &Self) -> Result<(), RankFault> {
        if self == other {
            return Ok(());
        }
        Err(RankFault::Differs { rank, call: self.to_string(), other: here, other_call: other.to_string() })
    }
}
