//! The layout of a state: slabs with named entries.

use crate::error::Error;
use crate::values::{DType, Rule, Shape, Spec};
use std::collections::HashMap;

/// Alignment of entries in a slab, in elements, so that each entry allows wide loads.
pub const ENTRY_ALIGNMENT: usize = 16;

/// One named tensor in a slab.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name, unique in the state.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Offset of its first element in the slab.
    pub offset: usize,
}

/// One block of memory with entries of one dtype, one after the other; gaps hold zeros.
#[derive(Debug, Clone, PartialEq)]
pub struct Slab {
    /// Its name, unique in the state.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Its entries, in order.
    pub entries: Vec<Entry>,
    /// Number of elements, gaps included.
    pub elements: usize,
    /// Whether it is read-only for programs.
    pub constant: bool,
}

/// The layout of a state: slabs and their entries.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateSpec {
    slabs: Vec<Slab>,
    /// Slab and index of each entry.
    by_name: HashMap<String, (usize, usize)>,
    /// The copy of an entry that the host writes with it.
    copies: HashMap<String, String>,
}

impl StateSpec {
    /// A state without slabs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The slabs, in order.
    #[must_use]
    pub fn slabs(&self) -> &[Slab] {
        &self.slabs
    }

    /// Bytes of each slab, in order.
    #[must_use]
    pub fn slab_bytes(&self) -> Vec<usize> {
        self.slabs.iter().map(|s| s.elements.saturating_mul(s.dtype.size())).collect()
    }

    /// Adds a slab that programs may update.
    ///
    /// # Errors
    /// [`Error::TwiceNamed`]; [`Error::Op`] for more elements than a memory can hold.
    pub fn add(&mut self, name: &str, dtype: DType, entries: &[(String, Shape)]) -> Result<(), Error> {
        self.push(name, dtype, entries, false)
    }

    /// Adds a read-only slab.
    ///
    /// # Errors
    /// [`Error::TwiceNamed`]; [`Error::Op`] for more elements than a memory can hold.
    pub fn add_constant(
        &mut self,
        name: &str,
        dtype: DType,
        entries: &[(String, Shape)],
    ) -> Result<(), Error> {
        self.push(name, dtype, entries, true)
    }

    /// Adds a slab with a copy of each entry of another one, which programs may update: what the host writes to an entry it writes to
    /// its copy too. So an average of weights begins as they do, wherever they come from. A copy may be written by itself after that.
    ///
    /// ```
    /// use landfall::{DType, Engine, State, StateSpec};
    /// let mut spec = StateSpec::new();
    /// spec.add("parameters", DType::F32, &[("w".to_owned(), [2].into())])?;
    /// spec.add_copy("average", "parameters", |entry| format!("average.{entry}"))?;
    /// let mut state = State::new(&Engine::cpu()?, &std::sync::Arc::new(spec))?;
    /// state.write("w", &[1.0f32, 2.0])?;
    /// assert_eq!(state.read::<f32>("average.w")?, [1.0, 2.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoEntry`] if there is no slab `of`; [`Error::TwiceNamed`].
    pub fn add_copy(&mut self, name: &str, of: &str, named: impl Fn(&str) -> String) -> Result<(), Error> {
        let (_, slab) = self.find_slab(of)?;
        let (dtype, pairs): (_, Vec<_>) =
            (slab.dtype, slab.entries.iter().map(|e| (e.name.clone(), (named(&e.name), e.shape))).collect());
        let entries: Vec<(String, Shape)> = pairs.iter().map(|(_, copy)| copy.clone()).collect();
        self.push(name, dtype, &entries, false)?;
        self.copies.extend(pairs.into_iter().map(|(entry, (copy, _))| (entry, copy)));
        Ok(())
    }

    /// The copy of an entry, if it has one.
    pub(crate) fn copy_of(&self, entry: &str) -> Option<&str> {
        self.copies.get(entry).map(String::as_str)
    }

    fn push(
        &mut self,
        name: &str,
        dtype: DType,
        entries: &[(String, Shape)],
        constant: bool,
    ) -> Result<(), Error> {
        let mut at = 0usize;
        let mut placed: Vec<Entry> = Vec::with_capacity(entries.len());
        let mut own = HashMap::with_capacity(entries.len());
        for (number, (entry, shape)) in entries.iter().enumerate() {
            let place = (self.slabs.len(), number);
            if self.by_name.contains_key(entry) || own.insert(entry.clone(), place).is_some() {
                return Err(Error::TwiceNamed { name: entry.clone() });
            }
            placed.push(Entry { name: entry.clone(), shape: *shape, offset: at });
            let large = |rule: Rule| rule.of("state", &[Spec { dtype, shape: *shape }], None, None);
            shape.bounded().map_err(large)?;
            at = at.saturating_add(shape.elements()).saturating_add(ENTRY_ALIGNMENT - 1);
            at -= at % ENTRY_ALIGNMENT;
            Shape::from([at]).bounded().map_err(large)?;
        }
        if self.find_slab(name).is_ok() {
            return Err(Error::TwiceNamed { name: name.to_owned() });
        }
        self.by_name.extend(own);
        self.slabs.push(Slab { name: name.to_owned(), dtype, entries: placed, elements: at, constant });
        Ok(())
    }

    /// The slab of this name, with its index.
    ///
    /// # Errors
    /// [`Error::NoEntry`].
    pub fn find_slab(&self, name: &str) -> Result<(usize, &Slab), Error> {
        let found = self.slabs.iter().enumerate().find(|(_, s)| s.name == name);
        found.ok_or_else(|| Error::NoEntry {
            name: name.to_owned(),
            known: known(self.slabs.iter().map(|s| &s.name)),
        })
    }

    /// The entry of this name, with its slab.
    ///
    /// # Errors
    /// [`Error::NoEntry`].
    pub fn find(&self, name: &str) -> Result<(&Slab, &Entry), Error> {
        let found = self.by_name.get(name).map(|&(s, e)| (&self.slabs[s], &self.slabs[s].entries[e]));
        found.ok_or_else(|| Error::NoEntry {
            name: name.to_owned(),
            known: known(self.slabs.iter().flat_map(|s| &s.entries).map(|e| &e.name)),
        })
    }
}

/// The names that an error lists: a few, and how many more there are.
fn known<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let all: Vec<&str> = names.map(String::as_str).collect();
    match all.len() {
        0 => "none".to_owned(),
        n if n > 8 => format!("{} and {} more", all[..8].join(", "), n - 8),
        _ => all.join(", "),
    }
}
