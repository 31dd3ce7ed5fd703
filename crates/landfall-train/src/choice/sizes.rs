//! Sizes of networks and lengths of training that fit the data.

use crate::data::{DataError, Panel, Segments, Split, Validation};

/// Longest context that is chosen: beyond it ridge regression takes longer than it gains.
const MAX_CONTEXT: usize = 1024;
/// Series-windows (windows times columns) of a batch: small steps, so that a run has many of them.
const SERIES_WINDOWS: usize = 128;
/// Passes over the training windows.
const PASSES: usize = 5;

/// Sizes that follow from seasonal period, horizon and the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Context length: two seasons or three horizons, whichever is longer, in whole seasons; at most 1,024 rows, and
    /// at most half of the training rows before the last horizon.
    pub context: usize,
    /// Patch length: a 21st of the context, 2 to 64 rows, as the paper's 16 of 336.
    pub patch: usize,
    /// Rows between patches: half a patch.
    pub stride: usize,
    /// Windows of a batch: so many that batch times columns is about 128, 8 to 64, and a quarter of the training windows
    /// at most.
    pub batch: usize,
    /// Updates: five passes over the training windows, 300 to 2,000.
    pub steps: usize,
}

impl Sizes {
    /// Sizes for a panel. `context` is the one that was asked for, if one was.
    ///
    /// Where series differ in length, nine in ten have room for the context; shorter ones are left out later. Those that are
    /// too short for the horizon do not count.
    ///
    /// # Errors
    /// A split that is no partition.
    pub fn new(
        panel: &Panel,
        split: Split,
        period: usize,
        horizon: usize,
        context: Option<usize>,
    ) -> Result<Self, DataError> {
        let mut train = Vec::with_capacity(panel.series().len());
        for series in panel.series() {
            let [rows, ..] = split.rows(series.rows())?;
            let fits = Segments::with_validation(split, series.rows(), (1, horizon), Validation::Optional);
            if fits.is_ok() {
                train.push(rows);
            }
        }
        train.sort_unstable();
        let short = train.get(train.len() / 10).copied().unwrap_or(0);
        let room = (short.saturating_sub(horizon) / 2).max(1);
        let wanted = (2 * period).max(horizon.saturating_mul(3)).next_multiple_of(period.max(1));
        let context = context.unwrap_or(wanted.min(MAX_CONTEXT).min(room));
        let window = context.saturating_add(horizon);
        let windows: usize = train.iter().map(|rows| (rows + 1).saturating_sub(window)).sum();
        let columns = panel.columns().len().max(1);
        let batch = (SERIES_WINDOWS / columns).clamp(8, 64).min((windows / 4).max(8)).min(windows.max(1));
        let (patch, stride) = Self::patch(context);
        let steps = (PASSES * windows / batch).clamp(300, 2000);
        Ok(Self { context, patch, stride, batch, steps })
    }

    /// Patch length and stride for a context.
    #[must_use]
    pub fn patch(context: usize) -> (usize, usize) {
        let patch = ((context + 10) / 21).clamp(2, 64).min(context.max(1));
        (patch, (patch / 2).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Series;

    fn sizes(rows: &[usize], columns: usize, period: usize, horizon: usize) -> Sizes {
        let names: Vec<String> = (0..columns).map(|c| format!("c{c}")).collect();
        let one = |(i, &rows): (usize, &usize)| {
            Series::new(format!("s{i}"), names.clone(), vec![vec![1.0; rows]; columns], None)
                .expect("a series")
        };
        let panel = Panel::new(rows.iter().enumerate().map(one).collect()).expect("series");
        let split = Split::ratio(0.7, 0.1, 0.2).expect("a partition");
        Sizes::new(&panel, split, period, horizon, None).expect("sizes")
    }

    #[test]
    fn sizes_follow_season_horizon_and_rows() {
        // 144 months: three horizons of 12 are whole seasons and fit half of the 100 training rows.
        let Sizes { context, patch, stride, batch, steps } = sizes(&[144], 1, 12, 12);
        assert_eq!((context, patch, stride, batch, steps), (36, 2, 1, 13, 300));
        // 36 months and a horizon of 6: 25 training rows have room for 9.
        assert_eq!(sizes(&[36], 1, 12, 6).context, 9);
        // Hours: as long as the paper's, and its patches.
        let Sizes { context, patch, stride, batch, .. } = sizes(&[17_420], 7, 24, 96);
        assert_eq!((context, patch, stride, batch), (288, 14, 7, 18));
        // 17 rows still have windows to train on.
        let Sizes { context, batch, .. } = sizes(&[17], 1, 1, 2);
        assert_eq!((context, batch), (4, 6));
        // One short series of twenty does not shorten the context of all.
        let rows: Vec<usize> = (0..20).map(|i| if i == 0 { 20 } else { 1000 }).collect();
        assert_eq!(sizes(&rows, 1, 12, 12).context, 36);
        // Nor does one of three that is too short for the horizon.
        assert_eq!(sizes(&[200, 180, 34], 1, 7, 7).context, sizes(&[200, 180], 1, 7, 7).context);
        // Many rows: steps and context have a bound.
        let Sizes { context, steps, .. } = sizes(&[1_000_000], 1, 1440, 720);
        assert_eq!((context, steps), (1024, 2000));
    }
}
