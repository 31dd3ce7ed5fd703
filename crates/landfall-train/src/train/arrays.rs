//! Samples in memory: named arrays of any rank and dtype, with one row for each sample.

use landfall::{DType, Element, Error, Graph, Program, Rule, Shape, Slab, Spec, State, StateSpec, Value};
use std::fmt::Debug;
use std::panic::Location;
use std::sync::Arc;

/// Named arrays with the same number of rows: axis 0 counts the samples.
///
/// ```
/// use landfall_train::train::Arrays;
/// let images = vec![0.0f32; 100 * 8 * 8];
/// let labels = vec![0i64; 100];
/// let data = Arrays::new().with("image", [100, 8, 8], images)?.with("label", [100], labels)?;
/// assert_eq!(data.rows(), 100);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Arrays {
    list: Vec<(String, Arc<dyn Column>)>,
}

/// One array, of any element type.
trait Column: Debug + Send + Sync {
    fn spec(&self) -> Spec;
    fn write_state(&self, state: &mut State, entry: &str) -> Result<(), Error>;
    /// Writes `batch` rows from `first` on to an input of a program; past the last row the last one again.
    fn write_rows(&self, program: &mut Program, first: usize, batch: usize) -> Result<(), Error>;
    fn rows(&self, from: usize, to: usize) -> Arc<dyn Column>;
}

#[derive(Debug)]
struct Typed<T> {
    name: String,
    shape: Shape,
    data: Vec<T>,
}

impl<T: Element> Column for Typed<T> {
    fn spec(&self) -> Spec {
        Spec::new(T::DTYPE, self.shape)
    }
    fn write_state(&self, state: &mut State, entry: &str) -> Result<(), Error> {
        state.write(entry, &self.data)
    }
    fn write_rows(&self, program: &mut Program, first: usize, batch: usize) -> Result<(), Error> {
        let rows = self.shape.dims()[0];
        let width = self.data.len() / rows.max(1);
        let row = |r: usize| &self.data[r.min(rows - 1) * width..][..width];
        let whole = first + batch <= rows;
        if whole {
            return program.write(&self.name, &self.data[first * width..(first + batch) * width]);
        }
        program.write(&self.name, &(first..first + batch).flat_map(row).copied().collect::<Vec<T>>())
    }
    fn rows(&self, from: usize, to: usize) -> Arc<dyn Column> {
        let width = self.data.len() / self.shape.dims()[0].max(1);
        Arc::new(Self {
            name: self.name.clone(),
            shape: self.shape.with(0, to - from),
            data: self.data[from * width..to * width].to_vec(),
        })
    }
}

impl Arrays {
    /// No arrays.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an array `[rows, ..]`, row-major.
    ///
    /// # Errors
    /// Another number of elements than the shape's, no rows, other rows than the arrays before, a name that is taken.
    #[track_caller]
    pub fn with<T: Element>(
        mut self,
        name: &str,
        shape: impl Into<Shape>,
        data: Vec<T>,
    ) -> Result<Self, Error> {
        let (spec, at) = (Spec::new(T::DTYPE, shape), Location::caller());
        let refused = |rule: Rule| Err(rule.of("arrays", &[spec], None, Some(at)).into());
        if spec.shape.elements() != data.len() {
            return refused(Rule::Elements { spec, got: data.len() });
        }
        let rows = spec.shape.dims().first().copied().unwrap_or(0);
        if rows == 0 {
            return refused(Rule::Attribute { name: "rows", value: 0.0, expected: "at least 1" });
        }
        if !self.list.is_empty() && rows != self.rows() {
            let expected = spec.shape.with(0, self.rows());
            return refused(Rule::ArgShape { arg: self.list.len(), shape: spec.shape, expected });
        }
        if self.list.iter().any(|(n, _)| n == name) {
            let known = self.names();
            return Err(Error::NoBinding { kind: "free array name", name: name.to_owned(), known });
        }
        let column = Typed { name: name.to_owned(), shape: spec.shape, data };
        self.list.push((name.to_owned(), Arc::new(column)));
        Ok(self)
    }

    /// The number of samples.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.list.first().map_or(0, |(_, c)| c.spec().shape.dims()[0])
    }

    /// The samples `from..to`, cut to those that there are.
    ///
    /// ```
    /// use landfall_train::train::Arrays;
    /// let data = Arrays::new().with("x", [10], (0..10).collect::<Vec<i64>>())?;
    /// assert_eq!(data.slice(8, 20).rows(), 2);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Self {
        let to = to.min(self.rows());
        let from = from.min(to);
        Self { list: self.list.iter().map(|(n, c)| (n.clone(), c.rows(from, to))).collect() }
    }

    /// The first `rows` samples, and the rest.
    ///
    /// ```
    /// use landfall_train::train::Arrays;
    /// let data = Arrays::new().with("x", [10, 2], vec![0.0f32; 20])?;
    /// let (test, training) = data.split(3);
    /// assert_eq!((test.rows(), training.rows()), (3, 7));
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[must_use]
    pub fn split(&self, rows: usize) -> (Self, Self) {
        (self.slice(0, rows), self.slice(rows, self.rows()))
    }

    /// The names, for errors.
    fn names(&self) -> String {
        self.list.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Adds a constant slab for each dtype.
    pub(super) fn add_slabs(&self, spec: &mut StateSpec) -> Result<(), Error> {
        for &dtype in DType::ALL {
            let of_dtype = self.list.iter().filter(|(_, c)| c.spec().dtype == dtype);
            let entries: Vec<_> = of_dtype.map(|(n, c)| (entry(n), c.spec().shape)).collect();
            if !entries.is_empty() {
                spec.add_constant(&slab_of(dtype), dtype, &entries)?;
            }
        }
        Ok(())
    }

    /// Writes all arrays into a state.
    pub(super) fn write(&self, state: &mut State) -> Result<(), Error> {
        self.list.iter().try_for_each(|(name, c)| c.write_state(state, &entry(name)))
    }

    /// Writes all arrays over those that a state was made with.
    ///
    /// # Errors
    /// Another set of names ([`Error::NoBinding`]), another dtype or shape ([`Error::HostData`]); nothing is written then.
    pub(super) fn rewrite(&self, state: &mut State) -> Result<(), Error> {
        let own = |slab: &&Slab| DType::ALL.iter().any(|&dtype| slab.name == slab_of(dtype));
        let slabs: Vec<&Slab> = state.spec().slabs().iter().filter(own).collect();
        let entries = || slabs.iter().flat_map(|slab| slab.entries.iter().map(|e| (slab.dtype, e)));
        let unknown =
            |name: &str, known: String| Error::NoBinding { kind: "array", name: name.to_owned(), known };
        for (name, column) in &self.list {
            let Some((dtype, found)) = entries().find(|(_, e)| e.name == entry(name)) else {
                let known: Vec<&str> = entries().map(|(_, e)| of_entry(&e.name)).collect();
                return Err(unknown(name, known.join(", ")));
            };
            let (expected, given) = (Spec::new(dtype, found.shape), column.spec());
            if expected != given {
                return Err(Error::HostData { what: format!("array {name}"), expected, given });
            }
        }
        if let Some((_, absent)) = entries().find(|(_, e)| !self.list.iter().any(|(n, _)| entry(n) == e.name))
        {
            return Err(unknown(of_entry(&absent.name), self.names()));
        }
        self.write(state)
    }

    /// Writes a batch of rows to the inputs of a program.
    pub(super) fn write_rows(&self, program: &mut Program, first: usize, batch: usize) -> Result<(), Error> {
        self.list.iter().try_for_each(|(_, c)| c.write_rows(program, first, batch))
    }

    /// A batch in a graph: the rows of the state's arrays that `index` (i64 `[batch]`) names.
    pub(super) fn gathered(&self, g: &Graph, index: Value) -> Result<Batch, Error> {
        let of = |(name, _): &(String, Arc<dyn Column>)| {
            Ok((name.clone(), g.take(g.entry(&entry(name))?, 0, index)?))
        };
        Ok(Batch { values: self.list.iter().map(of).collect::<Result<_, Error>>()? })
    }

    /// A batch as inputs of a program.
    pub(super) fn inputs(&self, g: &Graph, batch: usize) -> Batch {
        let of = |(name, c): &(String, Arc<dyn Column>)| {
            let spec = c.spec();
            (name.clone(), g.input(name, spec.dtype, spec.shape.with(0, batch)))
        };
        Batch { values: self.list.iter().map(of).collect() }
    }
}

/// The entry of an array in the state.
fn entry(name: &str) -> String {
    format!("data.{name}")
}

/// The array of an entry.
fn of_entry(entry: &str) -> &str {
    entry.strip_prefix("data.").unwrap_or(entry)
}

/// The slab of the arrays of a dtype.
fn slab_of(dtype: DType) -> String {
    format!("data.{dtype}")
}

/// A batch in a graph: each array with `batch` rows.
#[derive(Debug)]
pub struct Batch {
    values: Vec<(String, Value)>,
}

impl Batch {
    /// The array of this name.
    ///
    /// # Errors
    /// [`Error::NoBinding`] with the names that there are.
    pub fn get(&self, name: &str) -> Result<Value, Error> {
        let found = self.values.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
        found.ok_or_else(|| Error::NoBinding {
            kind: "array",
            name: name.to_owned(),
            known: self.values.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>().join(", "),
        })
    }
}
