//! The scalers of a run's series, by their names.

use crate::series::Series;
use crate::windows::scaler::Scaler;
use std::collections::HashMap;

/// Scalers that are found by name in a time that does not grow with their number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scalers {
    all: Vec<(String, Scaler)>,
    /// Which series were too short for the run's windows.
    short: Vec<bool>,
    places: HashMap<String, usize>,
}

/// What a run knows of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known<'a> {
    /// Its scaler.
    pub scaler: &'a Scaler,
    /// Whether it was too short for the run's windows, so that it is forecast by itself while it is.
    pub short: bool,
}

impl Scalers {
    /// These, in their order, with whether their series was too short for the run's windows; of equal names the first counts.
    #[must_use]
    pub fn new(all: Vec<((String, Scaler), bool)>) -> Self {
        let mut places = HashMap::with_capacity(all.len());
        for (place, ((name, _), _)) in all.iter().enumerate() {
            places.entry(name.clone()).or_insert(place);
        }
        let (all, short) = all.into_iter().unzip();
        Self { all, short, places }
    }

    /// All of them, with the names of their series.
    #[must_use]
    pub fn all(&self) -> &[(String, Scaler)] {
        &self.all
    }

    /// Names of the series.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(|(name, _)| name.clone()).collect()
    }

    /// What is known of a series by its name; the only one there is serves an `only` series, whatever its name.
    #[must_use]
    pub fn of(&self, series: &Series, only: bool) -> Option<Known<'_>> {
        let place = match only && self.all.len() == 1 {
            true => 0,
            false => *self.places.get(series.name())?,
        };
        Some(Known {
            scaler: &self.all.get(place)?.1,
            short: self.short.get(place).copied().unwrap_or(false),
        })
    }
}
