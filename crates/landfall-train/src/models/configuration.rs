//! What is asked of the configuration of a model.

use super::columns::Columns;
use super::model::Model;
use super::option::Declared;

/// What a model predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predicts {
    /// So many rows of each column, those after a window.
    Rows(usize),
    /// One value for a window.
    Value,
    /// One of so many classes, for each token of a sample.
    Classes(usize),
}

impl Predicts {
    /// Values of a prediction: for each column its rows, for a window one, for each token its classes' logits.
    #[must_use]
    pub const fn values(self) -> usize {
        match self {
            Self::Rows(rows) => rows,
            Self::Value => 1,
            Self::Classes(classes) => classes,
        }
    }
}

/// What a model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Each column of a window by itself; covariates by a regression around it.
    EachColumn,
    /// These columns of a window together, covariates among them.
    Together(Columns),
    /// Windows with a label and no covariates.
    Labelled,
    /// Samples of so many tokens.
    Tokens(usize),
}

/// The configuration of a model: what it reads and predicts, and how it is built.
pub trait Configuration: Declared {
    /// Length of what it reads: rows of a window, or features of a token.
    fn context(&self) -> usize;

    /// What it reads; each column by itself unless it says otherwise.
    fn reads(&self) -> Reads {
        Reads::EachColumn
    }

    /// What it predicts.
    fn predicts(&self) -> Predicts;

    /// Whether it has batch norms as it is set.
    fn has_batch_norm(&self) -> bool {
        false
    }

    /// Checks that the sizes fit together.
    ///
    /// # Errors
    /// A sentence that says which do not.
    fn check(&self) -> Result<(), String>;

    /// The model.
    ///
    /// # Errors
    /// As [`Configuration::check`].
    fn build(&self) -> Result<Box<dyn Model>, String>;
}
