//! The parts of which series are made.

use crate::error::generated::GeneratedError;
use std::fmt;
use std::str::FromStr;

/// A part of the simulation, which can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Levels, slopes, growth and their breaks.
    Trends,
    /// Seasons of the calendar.
    Seasons,
    /// Noise of observations: white, autoregressive, heavy-tailed, bursty.
    Noise,
    /// Seasonal ARIMA processes.
    Arima,
    /// Gaussian processes.
    Processes,
    /// Counts and intermittent demand.
    Counts,
    /// Regimes, thresholds, chaotic maps, random walks and constants.
    Maps,
    /// Shifts of the level.
    Shifts,
    /// Outliers.
    Outliers,
    /// Missing values.
    Missing,
    /// Rounding, floors and caps.
    Bounds,
    /// Scale and location.
    Units,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 12] = [
        Self::Trends,
        Self::Seasons,
        Self::Noise,
        Self::Arima,
        Self::Processes,
        Self::Counts,
        Self::Maps,
        Self::Shifts,
        Self::Outliers,
        Self::Missing,
        Self::Bounds,
        Self::Units,
    ];

    /// The name of the part.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trends => "trends",
            Self::Seasons => "seasons",
            Self::Noise => "noise",
            Self::Arima => "arima",
            Self::Processes => "processes",
            Self::Counts => "counts",
            Self::Maps => "maps",
            Self::Shifts => "shifts",
            Self::Outliers => "outliers",
            Self::Missing => "missing",
            Self::Bounds => "bounds",
            Self::Units => "units",
        }
    }

    /// The part of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// A set of parts.
///
/// ```
/// use landfall_data::generated::{Part, Parts};
///
/// let parts = Parts::ALL.without(Part::Missing);
/// assert!(parts.has(Part::Seasons) && !parts.has(Part::Missing));
/// assert_eq!(Parts::NONE.with(Part::Counts).with(Part::Trends).to_string(), "trends,counts");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parts(u32);

impl Parts {
    /// Every part.
    pub const ALL: Self = Self((1 << Part::ALL.len()) - 1);
    /// No part: all series are 0.
    pub const NONE: Self = Self(0);

    /// These parts and this one.
    #[must_use]
    pub const fn with(self, part: Part) -> Self {
        Self(self.0 | 1 << part as u32)
    }

    /// These parts but this one.
    #[must_use]
    pub const fn without(self, part: Part) -> Self {
        Self(self.0 & !(1 << part as u32))
    }

    /// Whether the part is in.
    #[must_use]
    pub const fn has(self, part: Part) -> bool {
        self.0 & 1 << part as u32 != 0
    }
}

impl Default for Parts {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Part> for Parts {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        parts.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Part::ALL.into_iter().filter(|p| self.has(*p)).map(Part::name).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Parts {
    type Err = GeneratedError;

    /// `all`; names with commas between them (`trends,seasons`); or names to leave out of all (`-missing,-outliers`).
    fn from_str(text: &str) -> Result<Self, GeneratedError> {
        if text.trim() == "all" {
            return Ok(Self::ALL);
        }
        let names = || text.split(',').map(str::trim);
        let out = names().filter(|name| name.starts_with('-')).count();
        if out > 0 && out < names().count() {
            return Err(GeneratedError::Mixed { text: text.to_owned() });
        }
        let known = || format!("all, {}", Part::ALL.map(Part::name).join(", "));
        names().try_fold(if out > 0 { Self::ALL } else { Self::NONE }, |parts, name| {
            let plain = name.trim_start_matches('-');
            let part = Part::named(plain)
                .ok_or_else(|| GeneratedError::Part { name: plain.to_owned(), known: known() })?;
            Ok(if out > 0 { parts.without(part) } else { parts.with(part) })
        })
    }
}
