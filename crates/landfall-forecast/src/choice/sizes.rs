//! Sizes of networks and lengths of training that fit the data.

use crate::data::{DataError, Panel, Segments, Split, Validation};

/// Longest context that is chosen: beyond it ridge regression takes longer than it gains.
const MAX_CONTEXT: usize = 1024;
/// The context of a pretrained network, where there are rows for it.
const LONG_CONTEXT: usize = 512;
/// Steps of a pretrained network, in one pass, at least and at most.
const FINE_TUNING: [usize; 2] = [10, 200];
/// Series-windows (windows times columns) of a batch: small steps, so that a run has many of them.
const SERIES_WINDOWS: usize = 128;
/// Columns beyond which a window of all of them is too large a batch.
const WIDE: usize = 64;
/// Passes over the training windows.
const PASSES: usize = 5;

/// Sizes that follow from seasonal period, horizon and the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Context length: two seasons or three horizons, whichever is longer, in whole seasons; where these are more, 1,024 rows,
    /// or half of the training rows before the last horizon.
    pub context: usize,
    /// Patch length: a 21st of the context, 2 to 64 rows, as the paper's 16 of 336.
    pub patch: usize,
    /// Rows between patches: half a patch.
    pub stride: usize,
    /// Windows of a batch: so many that batch times columns is about 128, 8 to 64, and a quarter of the training windows
    /// at most. Of more than 64 columns 128 windows of one column each, for models that read each column by itself; of
    /// others as many as 512 values of a row have.
    pub batch: usize,
    /// Updates: five passes over the training windows, 300 to 2,000.
    pub steps: usize,
    /// The context that there would be with more rows.
    pub wanted: usize,
    /// Whether a series has room for a window that tests; else all rows train, and the context leaves room for two horizons.
    pub tested: bool,
}

/// The network that sizes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// The context that was asked for, if one was.
    pub context: Option<usize>,
    /// Whether it reads each column by itself.
    pub by_itself: bool,
    /// Whether it begins with weights that know series: it reads the longest context, and takes fewer steps.
    pub pretrained: bool,
}

impl Sizes {
    /// Sizes for a panel and a network.
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
        Asked { context, by_itself, pretrained }: Asked,
    ) -> Result<Self, DataError> {
        let mut train = Vec::with_capacity(panel.series().len());
        for series in panel.series() {
            let [rows, ..] = split.with_horizon(horizon).rows(series.rows())?;
            let split = split.with_horizon(horizon);
            let fits = Segments::with_validation(split, series.rows(), (1, horizon), Validation::Optional);
            if fits.is_ok() {
                train.push(rows);
            }
        }
        let tested = !train.is_empty();
        if !tested {
            train.extend(panel.series().iter().map(crate::data::Series::rows));
        }
        train.sort_unstable();
        let short = train.get(train.len() / 10).copied().unwrap_or(0);
        let taken = if tested { horizon } else { horizon.saturating_mul(2) };
        let room = (short.saturating_sub(taken) / 2).max(1);
        let seasons = (2 * period).max(horizon.saturating_mul(3)).next_multiple_of(period.max(1));
        let wanted = if pretrained { LONG_CONTEXT } else { seasons.min(MAX_CONTEXT) };
        let mut context = context.unwrap_or(wanted.min(room));
        if !tested {
            context = context.min(train.last().copied().unwrap_or(1));
        }
        let window = context.saturating_add(horizon);
        let windows: usize = train.iter().map(|rows| (rows + 1).saturating_sub(window)).sum();
        let columns = panel.columns().len().max(1);
        let wide = Self::is_wide(columns);
        let windows = if wide && by_itself { windows.saturating_mul(columns) } else { windows };
        let batch = match (wide, by_itself) {
            (false, _) => (SERIES_WINDOWS / columns).clamp(8, 64).min((windows / 4).max(8)),
            (true, true) => SERIES_WINDOWS,
            (true, false) => (4 * SERIES_WINDOWS / columns).clamp(1, 8),
        };
        let batch = batch.min(windows.max(1));
        let (patch, stride) = Self::patch(context);
        let (passes, [least, most]) = if pretrained { (1, FINE_TUNING) } else { (PASSES, [300, 2000]) };
        let steps = (windows.saturating_mul(passes) / batch).clamp(least, most);
        Ok(Self { context, patch, stride, batch, steps, wanted, tested })
    }

    /// Whether a window of so many columns is too large for a batch.
    #[must_use]
    pub const fn is_wide(columns: usize) -> bool {
        columns > WIDE
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
        Sizes::new(&panel, split, period, horizon, Asked { by_itself: true, ..Asked::default() })
            .expect("sizes")
    }

    #[test]
    fn sizes_follow_season_horizon_and_rows() {
        // 144 months: three horizons of 12 are whole seasons and fit half of the 100 training rows.
        let Sizes { context, patch, stride, batch, steps, .. } = sizes(&[144], 1, 12, 12);
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
        // Many columns: a batch is of windows of one column each.
        let Sizes { batch, steps, .. } = sizes(&[300], 2000, 1, 12);
        assert_eq!((batch, steps, sizes(&[300], 64, 1, 12).batch), (128, 2000, 8));
        // 30 months have no room for a test window of 12: all of them train.
        let Sizes { context, wanted, tested, .. } = sizes(&[30], 1, 12, 12);
        assert_eq!((context, wanted, tested), (3, 36, false));
        assert_eq!((sizes(&[1], 1, 12, 12).context, sizes(&[144], 1, 12, 12).tested), (1, true));
    }
}
