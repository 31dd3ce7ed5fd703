//! Where the series of a panel stand, by their names.

use crate::series::Series;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Found when it is first asked for. Panels of equal series are equal, asked or not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(OnceLock<HashMap<String, usize>>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Places {
    /// The place of a name among these series.
    pub(crate) fn of(&self, name: &str, series: &[Series]) -> Option<usize> {
        let all = || series.iter().enumerate().map(|(place, s)| (s.name().to_owned(), place)).collect();
        self.0.get_or_init(all).get(name).copied()
    }
}
