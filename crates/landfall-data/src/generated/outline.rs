//! What is decided of a series before any part draws.

use crate::generated::draws::Draws;
use crate::generated::kinds::{Kind, Line};
use crate::generated::parts::{Part, Parts};

/// What the values of a series begin as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Trend, seasons and noise, added, multiplied or exponentiated.
    Structure,
    /// A seasonal ARIMA process.
    Arima,
    /// A Gaussian process.
    Process,
    /// Counts.
    Counts,
    /// Regimes, thresholds, maps, walks and constants.
    Map,
}

/// The sources, the part that each needs, and how often each is.
const SOURCES: [(Source, Option<Part>, f64); 5] = [
    (Source::Structure, None, 0.62),
    (Source::Arima, Some(Part::Arima), 0.16),
    (Source::Process, Some(Part::Processes), 0.10),
    (Source::Counts, Some(Part::Counts), 0.07),
    (Source::Map, Some(Part::Maps), 0.05),
];

impl Source {
    /// The share of series that begin as this, of all parts.
    #[must_use]
    pub fn weight(self) -> f64 {
        SOURCES.iter().find(|(source, ..)| *source == self).map_or(0.0, |(.., weight)| *weight)
    }
}

/// The stream of which seasons a series has.
const CALENDAR: u64 = u64::MAX - 2;
/// The stream of which processes are exponentiated.
const RELATION: u64 = u64::MAX - 3;
/// The stream of how parts are put together.
const TOGETHER: u64 = u64::MAX - 1;
/// The stream of what is decided before any part draws; those of the parts follow their order.
const OUTLINE: u64 = u64::MAX;

/// What is decided of a series before any part draws.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outline {
    seed: u64,
    number: u64,
    parts: Parts,
    pub(crate) line: Line,
    pub(crate) source: Source,
    /// The rows over which it changes by one unit of trend.
    pub(crate) span: f64,
}

impl Outline {
    pub(crate) fn draw(seed: u64, parts: Parts, kind: Option<Kind>, number: u64) -> Self {
        let mut draws = Draws::new(seed, number, OUTLINE);
        let line = Line::draw(&mut draws, kind);
        let span = line.span(&mut draws);
        let (source, part, _) = SOURCES[draws.choose(&SOURCES.map(|(_, _, weight)| weight))];
        let source = if part.is_none_or(|part| parts.has(part)) { source } else { Source::Structure };
        Self { seed, number, parts, line, source, span }
    }

    /// The stream of a part, if the part is in.
    pub(crate) fn draws(&self, part: Part) -> Option<Draws> {
        self.parts.has(part).then(|| Draws::new(self.seed, self.number, part as u64))
    }

    /// The stream of how parts are put together.
    pub(crate) fn together(&self) -> Draws {
        Draws::new(self.seed, self.number, TOGETHER)
    }

    /// The stream of which seasons there are.
    pub(crate) fn calendar(&self) -> Draws {
        Draws::new(self.seed, self.number, CALENDAR)
    }

    /// The stream of which processes are exponentiated.
    pub(crate) fn relation(&self) -> Draws {
        Draws::new(self.seed, self.number, RELATION)
    }
}
