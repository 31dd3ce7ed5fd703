//! The kinds of calendar, and how often each is.

use crate::generated::draws::Draws;

/// What a row stands for, which decides the seasons that a series may have and over how many rows it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No season.
    Yearly,
    /// A season of 4 rows.
    Quarterly,
    /// A season of 12 rows.
    Monthly,
    /// Years of 52.18 rows, at times quarters and months.
    Weekly,
    /// Weeks of 7 or 5 rows, at times months and years.
    Daily,
    /// Days of 24 rows, weeks of 168.
    Hourly,
    /// Days of 48, 96, 144 or 288 rows and their weeks.
    Minutely,
    /// Any period.
    Other,
}

impl Kind {
    /// All kinds, in the order of their rows.
    pub const ALL: [Self; 8] = [
        Self::Yearly,
        Self::Quarterly,
        Self::Monthly,
        Self::Weekly,
        Self::Daily,
        Self::Hourly,
        Self::Minutely,
        Self::Other,
    ];

    /// The share of series that are of this kind.
    #[must_use]
    pub fn weight(self) -> f64 {
        KINDS.iter().find(|line| line.kind == self).map_or(0.0, |line| line.weight)
    }
}

/// A line of the table of kinds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) kind: Kind,
    /// How often, of a sum of 1.
    pub(crate) weight: f64,
    /// The share of series with a season.
    pub(crate) seasonal: f64,
    /// The fewest and the most rows over which a series changes by one unit of its trend.
    pub(crate) span: (f64, f64),
    /// The share of series whose parts are multiplied or exponentiated.
    pub(crate) relative: f64,
}

const fn line(kind: Kind, weight: f64, seasonal: f64, span: (f64, f64), relative: f64) -> Line {
    Line { kind, weight, seasonal, span, relative }
}

/// The kinds of calendar.
pub(crate) const KINDS: [Line; 8] = [
    line(Kind::Yearly, 0.17, 0.0, (8.0, 80.0), 0.7),
    line(Kind::Quarterly, 0.18, 0.85, (8.0, 160.0), 0.7),
    line(Kind::Monthly, 0.22, 0.85, (12.0, 400.0), 0.7),
    line(Kind::Weekly, 0.10, 0.75, (20.0, 400.0), 0.6),
    line(Kind::Daily, 0.12, 0.8, (30.0, 1000.0), 0.5),
    line(Kind::Hourly, 0.13, 0.92, (60.0, 2000.0), 0.5),
    line(Kind::Minutely, 0.05, 0.85, (100.0, 2000.0), 0.5),
    line(Kind::Other, 0.03, 0.8, (8.0, 1000.0), 0.4),
];

impl Line {
    /// A kind, as often as its weight says, or the one that is asked for.
    pub(crate) fn draw(draws: &mut Draws, kind: Option<Kind>) -> Self {
        let drawn = draws.choose(&KINDS.map(|line| line.weight));
        let asked = KINDS.iter().position(|line| Some(line.kind) == kind);
        KINDS[asked.unwrap_or(drawn)]
    }

    /// The rows over which a series of this kind changes: log-uniform, so that short windows show what long ones do.
    pub(crate) fn span(&self, draws: &mut Draws) -> f64 {
        draws.log_between(self.span.0, self.span.1)
    }
}
