//! Which exponential smoothing it is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the level moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Trend {
    None,
    Additive,
    Damped,
}

/// How the season comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Seasonality {
    None,
    Additive,
    Multiplicative,
}

/// Error, trend and season of a model, as ETS(M,Ad,N).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kind {
    /// Whether the error is a share of the forecast.
    pub(crate) relative: bool,
    pub(crate) trend: Trend,
    pub(crate) seasonality: Seasonality,
}

impl Kind {
    /// The kinds that are tried: those whose variance is finite at any horizon (Hyndman et al. 2008, section 2.5 and chapter 15). Only a
    /// positive series has relative errors and a multiplicative season.
    pub(crate) fn tried(positive: bool, seasonal: bool) -> impl Iterator<Item = Self> {
        use Seasonality::{Additive, Multiplicative, None};
        let seasons = if seasonal { &[None, Additive, Multiplicative][..] } else { &[None][..] };
        let kinds = [false, true].into_iter().flat_map(move |relative| {
            [Trend::None, Trend::Additive, Trend::Damped].into_iter().flat_map(move |trend| {
                seasons.iter().map(move |seasonality| Self { relative, trend, seasonality: *seasonality })
            })
        });
        kinds.filter(move |k| if k.relative { positive } else { k.seasonality != Multiplicative })
    }

    pub(crate) fn has_trend(self) -> bool {
        self.trend != Trend::None
    }

    pub(crate) fn has_season(self) -> bool {
        self.seasonality != Seasonality::None
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = if self.relative { "M" } else { "A" };
        let trend = match self.trend {
            Trend::None => "N",
            Trend::Additive => "A",
            Trend::Damped => "Ad",
        };
        let season = match self.seasonality {
            Seasonality::None => "N",
            Seasonality::Additive => "A",
            Seasonality::Multiplicative => "M",
        };
        write!(f, "ETS({error},{trend},{season})")
    }
}
