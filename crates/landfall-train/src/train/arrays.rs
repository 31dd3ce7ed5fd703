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
    /// Those that are no samples.
    constants: Vec<(String, Arc<dyn Column>)>,
}

/// One array, of any element type.
trait Column: Debug + Send + Sync {
    fn spec(&self) -> Spec;
    fn write_state(&self, state: &mut State, entry: &str) -> Result<(), Error>;
    /// Writes all elements to an input of a program.
    fn write_all(&self, program: &mut Program) -> Result<(), Error>;
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
    fn write_all(&self, program: &mut Program) -> Result<(), Error> {
        program.write(&self.name, &self.data)
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
        let rows = spec.shape.dims().first().copied().unwrap_or(0);
        if rows == 0 {
            return refused(Rule::Attribute { name: "rows", value: 0.0, expected: "at least 1" });
        }
        if !self.list.is_empty() && rows != self.rows() {
            let expected = spec.shape.with(0, self.rows());
            return refused(Rule::ArgShape { arg: self.list.len(), shape: spec.shape, expected });
        }
        let column = self.column(name, spec, data, at)?;
        self.list.push((name.to_owned(), column));
        Ok(self)
    }

    /// Adds an array that is no samples, row-major: every batch has all of it, such as a table that a loss reads.
    ///
    /// ```
    /// use landfall_train::train::Arrays;
    /// let data = Arrays::new().with("x", [10, 2], vec![0.0f32; 20])?.with_constant("frequencies", [3], vec![1.0f32, 2.0, 4.0])?;
    /// assert_eq!(data.rows(), 10);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of elements than the shape's, a name that is taken.
    #[track_caller]
    pub fn with_constant<T: Element>(
        mut self,
        name: &str,
        shape: impl Into<Shape>,
        data: Vec<T>,
    ) -> Result<Self, Error> {
        let column = self.column(name, Spec::new(T::DTYPE, shape), data, Location::caller())?;
        self.constants.push((name.to_owned(), column));
        Ok(self)
    }

    /// An array with as many elements as its shape has, by a name that is free.
    fn column<T: Element>(
        &self,
        name: &str,
        spec: Spec,
        data: Vec<T>,
        at: &'static Location<'static>,
    ) -> Result<Arc<dyn Column>, Error> {
        if spec.shape.elements() != data.len() {
            return Err(Rule::Elements { spec, got: data.len() }
                .of("arrays", &[spec], None, Some(at))
                .into());
        }
        if self.all().any(|(n, _)| n == name) {
            let known = self.names();
            return Err(Error::NoBinding { kind: "free array name", name: name.to_owned(), known });
        }
        Ok(Arc::new(Typed { name: name.to_owned(), shape: spec.shape, data }))
    }

    /// Samples and constants.
    fn all(&self) -> impl Iterator<Item = &(String, Arc<dyn Column>)> {
        self.list.iter().chain(&self.constants)
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
        let list = self.list.iter().map(|(n, c)| (n.clone(), c.rows(from, to))).collect();
        Self { list, constants: self.constants.clone() }
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

    /// Refuses an array of another dtype or other sizes than that of the same name among `like`, whatever the number of samples.
    pub(super) fn check_like(&self, like: &Self) -> Result<(), Error> {
        let samples = self.list.iter().map(|(name, c)| (name, c.spec(), Some(self.rows())));
        let constants = self.constants.iter().map(|(name, c)| (name, c.spec(), None));
        for (name, given, rows) in samples.chain(constants) {
            let Some((_, own)) = like.all().find(|(n, _)| n == name) else { continue };
            let Spec { dtype, shape } = own.spec();
            let expected = Spec { dtype, shape: rows.map_or(shape, |rows| shape.with(0, rows)) };
            if given != expected {
                return Err(Error::HostData { what: format!("array {name}"), expected, given });
            }
        }
        Ok(())
    }

    /// The names, for errors.
    fn names(&self) -> String {
        self.all().map(|(n, _)| n.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Adds a constant slab for each dtype, of samples and of what is none.
    pub(super) fn add_slabs(&self, spec: &mut StateSpec) -> Result<(), Error> {
        for (list, kind) in [(&self.list, "data"), (&self.constants, "constants")] {
            for &dtype in DType::ALL {
                let of_dtype = list.iter().filter(|(_, c)| c.spec().dtype == dtype);
                let entries: Vec<_> = of_dtype.map(|(n, c)| (entry(n), c.spec().shape)).collect();
                if !entries.is_empty() {
                    spec.add_constant(&slab_of(kind, dtype), dtype, &entries)?;
                }
            }
        }
        Ok(())
    }

    /// Writes all arrays into a state.
    pub(super) fn write(&self, state: &mut State) -> Result<(), Error> {
        self.all().try_for_each(|(name, c)| c.write_state(state, &entry(name)))
    }

    /// Writes the samples over those that a state was made with.
    ///
    /// # Errors
    /// Another set of names ([`Error::NoBinding`]), another dtype or shape ([`Error::HostData`]); nothing is written then.
    pub(super) fn rewrite(&self, state: &mut State) -> Result<(), Error> {
        let own = |slab: &&Slab| DType::ALL.iter().any(|&dtype| slab.name == slab_of("data", dtype));
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
        self.list.iter().try_for_each(|(name, c)| c.write_state(state, &entry(name)))
    }

    /// Writes a batch of rows to the inputs of a program.
    pub(super) fn write_rows(&self, program: &mut Program, first: usize, batch: usize) -> Result<(), Error> {
        self.constants.iter().try_for_each(|(_, c)| c.write_all(program))?;
        self.list.iter().try_for_each(|(_, c)| c.write_rows(program, first, batch))
    }

    /// A batch in a graph: the rows of the state's arrays that `index` (i64 `[batch]`) names.
    pub(super) fn gathered(&self, g: &Graph, index: Value) -> Result<Batch, Error> {
        let of = |(name, _): &(String, Arc<dyn Column>)| {
            Ok((name.clone(), g.take(g.entry(&entry(name))?, 0, index)?))
        };
        let whole = |(name, _): &(String, Arc<dyn Column>)| Ok((name.clone(), g.entry(&entry(name))?));
        let values = self.list.iter().map(of).chain(self.constants.iter().map(whole));
        Ok(Batch { values: values.collect::<Result<_, Error>>()? })
    }

    /// A batch as inputs of a program.
    pub(super) fn inputs(&self, g: &Graph, batch: usize) -> Batch {
        let of = |(name, c): &(String, Arc<dyn Column>)| {
            let spec = c.spec();
            (name.clone(), g.input(name, spec.dtype, spec.shape.with(0, batch)))
        };
        let whole = |(name, c): &(String, Arc<dyn Column>)| {
            (name.clone(), g.input(name, c.spec().dtype, c.spec().shape))
        };
        Batch { values: self.list.iter().map(of).chain(self.constants.iter().map(whole)).collect() }
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

/// The slab of the arrays of a kind and a dtype.
fn slab_of(kind: &str, dtype: DType) -> String {
    format!("{kind}.{dtype}")
}

/// A batch in a graph: each array with `batch` rows, and constants.
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
