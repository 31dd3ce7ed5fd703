//! The origins of a backtest: places in time from which forecasts are made whose actual values are known.

use crate::error::DataError;
use crate::error::cutoff::CutoffError;
use crate::series::Series;
use crate::series::panel::Panel;
use crate::windows::cutoff::Cutoff;
use std::collections::BTreeSet;

/// Places in time, each with as many rows after it as a forecast has, in one series at least.
///
/// ```
/// use landfall_data::{Origins, Panel, synthetic};
/// let panel = Panel::from(synthetic::demo(100, 1, 1)?);
/// let origins = Origins::last(&panel, 6, 3, 2)?; // horizon, windows, step
/// let known: Vec<usize> = (0..3).map(|origin| origins.known(origin, &panel.series()[0])).collect();
/// assert_eq!(known, [90, 92, 94]); // the last forecast ends with the last row
/// # Ok::<(), landfall_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins {
    places: Places,
    horizon: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Places {
    /// In each series this number of windows, so many rows apart; the last one ends with its last row.
    Last { windows: usize, step: usize },
    /// The same places in all series.
    At(Vec<Cutoff>),
}

/// Which places of a range become origins.
#[derive(Debug, Clone, Copy, Default)]
pub struct Range {
    /// The first one may be here, or later.
    pub from: Option<Cutoff>,
    /// The last one may be here, or earlier.
    pub to: Option<Cutoff>,
    /// How many at most: the first ones where `from` is given, else the last ones.
    pub windows: Option<usize>,
}

impl Origins {
    /// The last `windows` origins of each series, `step` rows apart: the forecast from the last one ends with the last row.
    ///
    /// # Errors
    /// [`CutoffError::TooManyOrigins`] when no series has a row before the first one.
    pub fn last(panel: &Panel, horizon: usize, windows: usize, step: usize) -> Result<Self, DataError> {
        let taken = step.saturating_mul(windows.saturating_sub(1)).saturating_add(horizon);
        let longest = panel.series().iter().map(Series::rows).max().unwrap_or(0);
        if windows == 0 || taken >= longest {
            return Err(CutoffError::TooManyOrigins { windows, horizon, step, taken, longest }.into());
        }
        Ok(Self { places: Places::Last { windows, step }, horizon })
    }

    /// Every `step`-th row of the data in a range, each with a whole forecast after it in one series at least.
    ///
    /// # Errors
    /// [`CutoffError::NoOrigin`].
    pub fn within(panel: &Panel, horizon: usize, range: Range, step: usize) -> Result<Self, DataError> {
        let Range { from, to, windows } = range;
        if let (Some(first), Some(last), Some(series)) = (from, to, panel.series().first())
            && last < first
        {
            let (first, last) = (first.label(series), last.label(series));
            return Err(CutoffError::Reversed { first, last }.into());
        }
        let mut all = BTreeSet::new();
        for series in panel.series() {
            let whole = series.rows().saturating_sub(horizon);
            match series.dates().filter(|_| !matches!(from.or(to), Some(Cutoff::Row(_)))) {
                Some(dates) => all.extend(dates.values().iter().take(whole).copied().map(Cutoff::Date)),
                None => all.extend((0..whole).map(Cutoff::Row)),
            }
        }
        let within = |c: &&Cutoff| from.is_none_or(|from| from <= **c) && to.is_none_or(|to| **c <= to);
        let (places, most) = (all.iter().filter(within), windows.unwrap_or(usize::MAX));
        let mut places: Vec<Cutoff> = if from.is_some() {
            places.step_by(step.max(1)).take(most).copied().collect()
        } else {
            places.rev().step_by(step.max(1)).take(most).copied().collect()
        };
        places.sort_unstable();
        if places.is_empty() {
            let (first, last) = (all.first(), all.last());
            let label = |c: Option<&Cutoff>| {
                c.zip(panel.series().first()).map_or_else(|| "none".to_owned(), |(c, s)| c.label(s))
            };
            return Err(CutoffError::NoOrigin { horizon, first: label(first), last: label(last) }.into());
        }
        Ok(Self { places: Places::At(places), horizon })
    }

    /// How many there are, at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.places {
            Places::Last { windows, .. } => *windows,
            Places::At(places) => places.len(),
        }
    }

    /// Rows that are forecast from each.
    #[must_use]
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// How many rows of a series are known at an origin.
    #[must_use]
    pub fn known(&self, origin: usize, series: &Series) -> usize {
        match &self.places {
            Places::Last { windows, step } => {
                let after = self.horizon + step * (windows - 1).saturating_sub(origin);
                series.rows().saturating_sub(after)
            }
            Places::At(places) => places.get(origin).map_or(0, |cutoff| cutoff.rows(series)),
        }
    }

    /// Whether a series has the row of an origin, and the actual values of a whole forecast after it.
    #[must_use]
    pub fn is_whole(&self, origin: usize, series: &Series) -> bool {
        let known = self.known(origin, series);
        known > 0 && known + self.horizon <= series.rows()
    }

    /// What an origin is called: the date or number of the last known row of the first series that has a forecast there.
    #[must_use]
    pub fn label(&self, origin: usize, panel: &Panel) -> String {
        let first = panel.series().iter().find(|s| self.is_whole(origin, s));
        first.map_or_else(String::new, |s| s.label(self.known(origin, s) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, rows: usize) -> Series {
        let values = (0..rows).map(|row| row as f64).collect();
        Series::new(name, vec!["a".to_owned()], vec![values], None).expect("a series")
    }

    #[test]
    fn the_last_windows_end_with_the_last_row_of_each_series() {
        let panel = Panel::new(vec![series("long", 20), series("short", 8)]).expect("a panel");
        let origins = Origins::last(&panel, 3, 3, 4).expect("they fit the longer one");
        let known = |s: usize| (0..3).map(|o| origins.known(o, &panel.series()[s])).collect::<Vec<_>>();
        assert_eq!((known(0), known(1)), (vec![9, 13, 17], vec![0, 1, 5]));
        assert!(!origins.is_whole(0, &panel.series()[1]) && origins.is_whole(1, &panel.series()[1]));
        let error = Origins::last(&panel, 3, 6, 4).expect_err("23 rows").to_string();
        assert_eq!(
            error,
            "6 windows of horizon 3, 4 rows apart, take 23 rows and some before them; the longest series has 20; give \
             fewer or closer windows"
        );
    }

    #[test]
    fn a_range_is_walked_from_its_start_or_back_from_its_end() {
        let panel = Panel::new(vec![series("a", 20)]).expect("a panel");
        let of = |from: Option<usize>, to: Option<usize>, windows, step| {
            let range = Range { from: from.map(Cutoff::Row), to: to.map(Cutoff::Row), windows };
            let origins = Origins::within(&panel, 3, range, step).map_err(|e| e.to_string())?;
            Ok::<_, String>(
                (0..origins.count()).map(|o| origins.known(o, &panel.series()[0])).collect::<Vec<_>>(),
            )
        };
        // Row 16 is the last with three rows after it.
        assert_eq!(of(Some(10), None, None, 3), Ok(vec![11, 14, 17]));
        assert_eq!(of(Some(10), Some(13), None, 3), Ok(vec![11, 14]));
        assert_eq!(of(Some(4), None, Some(2), 3), Ok(vec![5, 8]));
        assert_eq!(of(None, Some(12), Some(2), 5), Ok(vec![8, 13]));
        let error = of(Some(17), None, None, 1).expect_err("too late");
        assert_eq!(error, "no origin in this range has 3 rows after it; origins from row 0 to row 16 have");
    }
}
