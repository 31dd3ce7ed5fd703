//! What the parts of a body share while it is read: its columns, the memory that it may still take, and what is wrong with it.

use crate::commands::serve::answer::Refusal;
use crate::commands::serve::columns::Columns;
use hyper::StatusCode;
use serde::de::Error;
use std::cell::{Cell, RefCell};

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
}

impl<'a> Parser<'a> {
    pub(in crate::commands::serve) fn new(
        history: &'a Columns,
        future: Option<&'a Columns>,
        most: usize,
    ) -> Self {
        Self { history, future, most, cells: Cell::new(0), refusal: RefCell::new(None) }
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
