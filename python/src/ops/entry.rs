//! The table's ops by name, with those that calls have made of them.

use crate::error::{Class, Raise};
use landfall::ops::{Argument, Attribute, AttributeValue, Given, Named, Tested, by_name_for, named};
use landfall::{Error, Rule, Spec};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An op of the table under one of its names, with the ops that calls made of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) named: Named,
    made: Mutex<Vec<Made>>,
}

/// An op with its attributes, for calls that give the same ones to arguments of the same ranks.
#[derive(Debug)]
struct Made {
    attributes: Vec<(&'static str, AttributeValue)>,
    ranks: Vec<usize>,
    op: Arc<dyn Tested>,
}

/// The most ops that an entry keeps; a program that varies an attribute makes more.
const KEPT: usize = 64;

/// The table, by name.
pub(super) fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        named().into_iter().map(|named| Entry { named, made: Mutex::new(Vec::new()) }).collect()
    })
}

/// The entry of this name, if there is one.
pub(crate) fn found(name: &str) -> Option<&'static Entry> {
    let all = entries();
    all.binary_search_by(|entry| entry.name().cmp(name)).ok().and_then(|at| all.get(at))
}

/// The entry of this name.
pub(crate) fn entry(py: Python<'_>, name: &str) -> PyResult<&'static Entry> {
    found(name)
        .ok_or_else(|| Class::Argument.error(py, format!("no op is called {name:?}; landfall.ops has all")))
}

impl Entry {
    pub(super) fn op(&self) -> &dyn Tested {
        self.named.op.as_ref()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.op().name()
    }

    /// The attributes that are keywords: all but the one that gives the name.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &'static Attribute> {
        self.op().declared().iter().filter(|attribute| Some(attribute.name) != self.named.by)
    }

    /// The attributes that are not given and whose values these arguments decide.
    pub(super) fn decided(
        &self,
        given: &[(&'static str, AttributeValue)],
        args: &[Spec],
    ) -> impl Iterator<Item = (&'static str, AttributeValue)> {
        let open = move |a: &&'static Attribute| {
            given.iter().all(|(name, value)| *name != a.name || *value == AttributeValue::None)
        };
        self.attributes().filter(open).filter_map(|a| Some((a.name, self.op().left_out(a.name, args)?)))
    }

    /// The arguments that calls under this name have.
    pub(super) fn arguments(&self) -> impl Iterator<Item = Argument> {
        let op = self.op();
        op.arguments().iter().filter_map(move |argument| match argument.given {
            // The name has decided.
            Given::If { attribute, .. } if Some(attribute) == self.named.by => {
                argument.taken(op).then_some(Argument { given: Given::Always, ..*argument })
            }
            Given::Always | Given::If { .. } | Given::Optional | Given::Many { .. } => Some(*argument),
        })
    }

    /// The name that an argument has in Python, where no two parameters have one name.
    pub(super) fn shown(&self, argument: &Argument) -> String {
        let taken = argument.name == "out" || self.attributes().any(|a| a.name == argument.name);
        format!("{}{}", argument.name, if taken { "_" } else { "" })
    }

    /// The op with these attributes, for arguments of these specs.
    pub(crate) fn made(
        &self,
        py: Python<'_>,
        attributes: &[(&'static str, AttributeValue)],
        args: &[Spec],
    ) -> PyResult<Arc<dyn Tested>> {
        // The exception is made when the lock is free again: that may let another thread run.
        self.op_for(attributes, args).raised(py)
    }

    /// The same, for threads without the interpreter.
    pub(crate) fn op_for(
        &self,
        attributes: &[(&'static str, AttributeValue)],
        args: &[Spec],
    ) -> Result<Arc<dyn Tested>, Error> {
        let made = self.find_or_make(attributes, args);
        made.map_err(|rule| rule.of(self.name(), args, None, None).into())
    }

    fn find_or_make(
        &self,
        attributes: &[(&'static str, AttributeValue)],
        args: &[Spec],
    ) -> Result<Arc<dyn Tested>, Rule> {
        let mut attributes = Cow::Borrowed(attributes);
        let decided: Vec<_> = self.decided(&attributes, args).collect();
        if !decided.is_empty() {
            attributes.to_mut().retain(|(name, _)| decided.iter().all(|(own, _)| own != name));
            attributes.to_mut().extend(decided);
        }
        let ranks = || args.iter().map(|spec| spec.shape.rank());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |m: &&Made| m.attributes == *attributes && m.ranks.iter().copied().eq(ranks());
        if let Some(found) = made.iter().find(same) {
            return Ok(Arc::clone(&found.op));
        }
        let op = by_name_for(self.name(), &attributes, args)?;
        if made.len() == KEPT {
            made.remove(0);
        }
        made.push(Made { attributes: attributes.to_vec(), ranks: ranks().collect(), op: Arc::clone(&op) });
        Ok(op)
    }
}
