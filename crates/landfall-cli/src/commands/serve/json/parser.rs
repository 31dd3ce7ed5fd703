//! What the parts of a body share while it is read: its columns, the memory that it may still take, and what is wrong with it.

use crate::commands::serve::answer::Refusal;
use crate::commands::serve::columns::{Columns, MORE_COLUMNS, Role};
use hyper::StatusCode;
use serde::de::Error;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The name of a column.
pub(super) enum ColumnName<'p> {
    Known(&'p str),
    /// Of a request.
    Further(Rc<str>),
}

impl std::ops::Deref for ColumnName<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Known(name) => name,
            Self::Further(name) => name,
        }
    }
}

/// The columns that a request has beside those that are known, where all are read.
#[derive(Default)]
struct Further {
    names: Vec<Rc<str>>,
    places: HashMap<Rc<str>, usize>,
}

/// How a body is read.
pub(in crate::commands::serve) struct Parser<'a> {
    pub(super) history: &'a Columns,
    /// Of the rows after a history; none where nothing is known in advance.
    pub(super) future: Option<&'a Columns>,
    /// Histories, at most.
    pub(super) most: usize,
    /// Cells that further tables may have.
    pub(super) cells: Cell<usize>,
    /// What is wrong with the data of a body whose JSON is right.
    pub(super) refusal: RefCell<Option<Refusal>>,
    further: RefCell<Further>,
}

impl<'a> Parser<'a> {
    pub(in crate::commands::serve) fn new(
        history: &'a Columns,
        future: Option<&'a Columns>,
        most: usize,
    ) -> Self {
        let (cells, refusal, further) = (Cell::new(0), RefCell::new(None), RefCell::default());
        Self { history, future, most, cells, refusal, further }
    }

    /// Where a column stands among those that are read.
    pub(super) fn place<E: Error>(&self, read: &Columns, name: &str) -> Result<Option<usize>, E> {
        let known = read.place(name);
        if known.is_some() || !read.open {
            return Ok(known);
        }
        let mut further = self.further.borrow_mut();
        let Further { names, places } = &mut *further;
        if let Some(place) = places.get(name) {
            return Ok(Some(read.len() + place));
        }
        if names.len() == MORE_COLUMNS {
            let text = format!("the request has more than {MORE_COLUMNS} columns; send several requests");
            return Err(self.end(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)));
        }
        let (place, name) = (names.len(), Rc::<str>::from(name));
        names.push(Rc::clone(&name));
        places.insert(name, place);
        Ok(Some(read.len() + place))
    }

    /// The column at a place.
    pub(super) fn column<'p>(&self, read: &'p Columns, place: usize) -> (ColumnName<'p>, Role) {
        match place.checked_sub(read.len()).and_then(|at| self.further.borrow().names.get(at).cloned()) {
            Some(name) => (ColumnName::Further(name), Role::Any),
            None => {
                let (name, role) = read.column(place);
                (ColumnName::Known(name), role)
            }
        }
    }

    /// Ends the reading with a refusal.
    pub(super) fn end<E: Error>(&self, refusal: Refusal) -> E {
        self.refusal.replace(Some(refusal));
        E::custom("refused")
    }

    /// Ends the reading: the JSON is right, and its data is not.
    pub(super) fn wrong<E: Error>(&self, text: impl Into<String>) -> E {
        self.end(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, text))
    }

    /// The columns that a request has beside those that are known, in the order of their places.
    pub(super) fn further(&self) -> Vec<String> {
        self.further.borrow().names.iter().map(|name| name.to_string()).collect()
    }

    /// Takes the memory of further cells.
    pub(super) fn spend<E: Error>(&self, cells: usize) -> Result<(), E> {
        let left = self.cells.get().checked_sub(cells).ok_or_else(|| {
            let text = "the request has far more missing cells than others, rows times columns; give its columns as lists, or fewer rows";
            self.end(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text))
        })?;
        self.cells.set(left);
        Ok(())
    }
}
