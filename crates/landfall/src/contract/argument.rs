//! Arguments of ops: declared once, in order, with the rule of their number.

use super::Attributes;
use crate::values::{Rule, Spec};
use std::fmt;

/// One declared argument of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Which calls have it.
    pub given: Given,
}

/// Which calls of an op have an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// Every call.
    Always,
    /// Those in which an attribute has a value, and no others.
    If {
        /// The attribute's name.
        attribute: &'static str,
        /// The value, as text: `true`, or a name of an enumeration.
        is: &'static str,
    },
    /// It may be left out.
    Optional,
    /// Any number of such arguments from this one on; they are the last.
    Many {
        /// The fewest: 0 or 1.
        least: usize,
    },
}

impl Argument {
    /// Whether a call of `op` with its attributes takes this argument.
    pub fn taken<A: Attributes + ?Sized>(&self, op: &A) -> bool {
        match self.given {
            Given::If { attribute, is } => op.choice(attribute) == Some(is),
            Given::Always | Given::Optional | Given::Many { .. } => true,
        }
    }
}

/// As it is declared: `prev if previous`.
impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.given {
            Given::Always => Ok(()),
            Given::If { attribute, is: "true" } => write!(f, " if {attribute}"),
            Given::If { attribute, is } => write!(f, " if {attribute} = {is}"),
            Given::Optional => f.write_str(" or none"),
            Given::Many { least: 0 } => f.write_str(" or none and more"),
            Given::Many { .. } => f.write_str(" and more"),
        }
    }
}

/// Checks the number of arguments of a call of `op` with its attributes: the first rule of an op's
/// [`infer`](super::Op::infer).
///
/// # Errors
/// [`Rule::Arity`] with the names of the arguments that the op takes.
pub fn arity<A: Attributes + ?Sized>(op: &A, args: &[Spec]) -> Result<(), Rule> {
    number(op.arguments().iter().filter(|argument| argument.taken(op)), args.len())
}

/// Checks the number of arguments of a call that takes these.
///
/// # Errors
/// [`Rule::Arity`] with their names.
pub(crate) fn number<'a>(taken: impl Iterator<Item = &'a Argument> + Clone, got: usize) -> Result<(), Rule> {
    let (least, most) = taken.clone().fold((0, 0), |(least, most), argument| match argument.given {
        Given::Always | Given::If { .. } => (least + 1, most + 1),
        Given::Optional => (least, most + 1),
        Given::Many { least: own } => (least + own, usize::MAX),
    });
    if (least..=most).contains(&got) {
        return Ok(());
    }
    let mut names: Vec<&str> = taken.map(|argument| argument.name).collect();
    let count = match (least, most) {
        (_, 0) => return Err(Rule::Arity { takes: "no arguments".to_owned(), got }),
        (1, 1) => "1 argument".to_owned(),
        (n, usize::MAX) => {
            names.push("..");
            format!("at least {n} argument{}", if n == 1 { "" } else { "s" })
        }
        (n, m) if n == m => format!("{n} arguments"),
        (n, m) if m == n + 1 => format!("{n} or {m} arguments"),
        (n, m) => format!("{n} to {m} arguments"),
    };
    Err(Rule::Arity { takes: format!("{count} ({})", names.join(", ")), got })
}
