//! Where the search for the initial states begins (Hyndman et al. 2008, section 2.6.1).

use super::filter::State;
use super::kind::{Kind, Seasonality};
use crate::rows::{Rows, line, mean};
use crate::seasonal::Indices;

/// Level and trend are a line through the first rows without their season, ten or two seasons; the season is that of a classical
/// decomposition.
pub(crate) fn initial(kind: Kind, values: &[f64], season: usize) -> State {
    let indices = match kind.seasonality {
        Seasonality::None => None,
        Seasonality::Additive => Some(Indices::of_kind(values, season, false)),
        Seasonality::Multiplicative => Some(Indices::of_kind(values, season, true)),
    };
    let found = indices.map_or_else(Vec::new, |i| i.values().to_vec());
    from_season(kind, values, found)
}

/// As [`initial`], with a season that is known.
pub(crate) fn from_season(kind: Kind, values: &[f64], season: Vec<f64>) -> State {
    let used = values.len().min(10.max(2 * season.len()));
    let adjusted: Vec<f64> = (0..used).map(|i| adjusted(kind, values[i], &season, i)).collect();
    let (level, trend) = if kind.has_trend() {
        let (at_first, slope) = line(&adjusted);
        (at_first - slope, slope)
    } else {
        (mean(&adjusted), 0.0)
    };
    State { level, trend, season, next: 0 }
}

fn adjusted(kind: Kind, y: f64, season: &[f64], row: usize) -> f64 {
    match kind.seasonality {
        Seasonality::None => y,
        Seasonality::Additive => y - season[row % season.len()],
        Seasonality::Multiplicative => y / season[row % season.len()].max(0.01),
    }
}

/// The season's states from its first row on, when `rows` do not begin where it was found.
pub(crate) fn turned(season: &[f64], rows: Rows) -> Vec<f64> {
    let mut turned = season.to_vec();
    if !season.is_empty() {
        turned.rotate_left(rows.place(0, season.len()));
    }
    turned
}
