//! The columns that a table of a request has to have.

use landfall_train::data::{Most, Purpose, ReadOptions};
use std::collections::{HashMap, HashSet};

/// Columns that a table may have beside those that are known.
pub(super) const MORE_COLUMNS: usize = 4096;
/// The column of dates that stand beside the columns, where no run names one.
const DATES: &str = "date";

/// What a column of a request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Date,
    /// A name, of a categorical column.
    Name,
    Number,
    /// Numbers or texts, as they come.
    Any,
}

/// How a table of a request is read: the columns that it has to have, and that of its dates.
pub(super) struct Columns {
    pub(super) options: ReadOptions,
    pub(super) names: Vec<String>,
    /// The column of the dates. A date of several columns is one here, in a form that is found anew.
    pub(super) date: String,
    pub(super) date_format: Option<String>,
    /// Whether columns of all other names are read too.
    pub(super) open: bool,
    /// All of them, and where each stands.
    all: Vec<(String, Role)>,
    places: HashMap<String, usize>,
}

impl Columns {
    pub(super) fn of(options: ReadOptions, series: usize) -> Self {
        let names = options.file_columns().unwrap_or_default();
        let (date, date_format) = match options.date_column.as_deref().unwrap_or_default() {
            [one] => (one.clone(), options.date_format.clone()),
            _ => (DATES.to_owned(), None),
        };
        let categorical: HashSet<&String> = options.categorical.iter().collect();
        let role = |name: &String| if categorical.contains(name) { Role::Name } else { Role::Number };
        let values = names.iter().filter(|name| **name != date).map(|name| (name.clone(), role(name)));
        let all: Vec<(String, Role)> = std::iter::once((date.clone(), Role::Date)).chain(values).collect();
        let places = all.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        let most = Some(Most { columns: all.len() + MORE_COLUMNS, series });
        Self { options: ReadOptions { most, ..options }, names, date, date_format, open: false, all, places }
    }

    /// Whatever columns there are, of so many series at most.
    pub(super) fn open(series: usize) -> Self {
        let options = ReadOptions { purpose: Purpose::Unknown, ..ReadOptions::default() };
        Self { open: true, ..Self::of(options, series) }
    }

    /// Where a column stands among those that are read.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The column at a place.
    pub(super) fn column(&self, place: usize) -> (&str, Role) {
        self.all.get(place).map_or(("", Role::Number), |(name, role)| (name, *role))
    }

    /// Columns that are read.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// That rows after a history are given, of which nothing is read.
    pub(super) fn no_future(&self) -> String {
        if self.open {
            return "`future` is given, and the pretrained forecaster reads no columns known in advance; leave it out"
                .to_owned();
        }
        let columns = self.names.join(", ");
        format!(
            "`future` is given, and the run has no columns known in advance: it reads {columns}; leave it out"
        )
    }
}
