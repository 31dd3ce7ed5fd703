//! Windows of a row range, by offset: a series is stored once, whatever the overlap.

pub(crate) mod cutoff;
pub(crate) mod digits;
pub(crate) mod origins;
pub(crate) mod scaler;
pub(crate) mod scalers;
pub(crate) mod split;
pub(crate) mod window_forecast;
pub(crate) mod windowed;

use crate::error::windows::WindowError;
use std::ops::Range;

use crate::error::DataError;

/// All windows of a row range: `context` rows in, the `horizon` rows after them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    base: usize,
    count: usize,
    context: usize,
    horizon: usize,
}

impl Windows {
    /// The windows of `rows`, at least one.
    ///
    /// ```
    /// use landfall_data::Windows;
    /// let windows = Windows::new(0..100, 24, 6)?; // rows, context, horizon
    /// assert_eq!(windows.count(), 71);
    /// assert_eq!(windows.target(0), 24..30); // the rows that the first window forecasts
    /// # Ok::<(), landfall_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// [`WindowError::ZeroContext`], [`WindowError::ZeroHorizon`], or [`WindowError::NoWindow`] when the range
    /// is too short.
    pub fn new(rows: Range<usize>, context: usize, horizon: usize) -> Result<Self, DataError> {
        if context == 0 {
            return Err(DataError::Window(WindowError::ZeroContext));
        }
        if horizon == 0 {
            return Err(DataError::Window(WindowError::ZeroHorizon));
        }
        let count =
            context.checked_add(horizon).and_then(|window| rows.len().saturating_add(1).checked_sub(window));
        match count {
            None | Some(0) => {
                Err(DataError::Window(WindowError::NoWindow { rows: rows.len(), context, horizon }))
            }
            Some(count) => Ok(Self { base: rows.start, count, context, horizon }),
        }
    }

    /// No window, at the end of rows that are too few for one.
    pub(crate) fn none(base: usize, context: usize, horizon: usize) -> Self {
        Self { base, count: 0, context, horizon }
    }

    /// Row of the first window's first context row.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Number of windows; 0 in a segment of a series that is too short for one there.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Rows that a window shows.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Rows that a window asks for.
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// First context row of every window, in order.
    pub fn starts(&self) -> Range<usize> {
        self.base..self.base + self.count
    }

    /// Target rows of the window that starts at row `start`.
    pub fn target(&self, start: usize) -> Range<usize> {
        start + self.context..start + self.context + self.horizon
    }

    /// Row after the last target row.
    pub fn end(&self) -> usize {
        self.base + self.count + self.context + self.horizon - 1
    }

    /// Windows that whole batches of `batch` hold; none for a batch of 0.
    pub fn drop_last(&self, batch: usize) -> usize {
        self.count - self.count.checked_rem(batch).unwrap_or(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_and_placed() {
        let windows = Windows::new(10..20, 4, 3).expect("four windows");
        assert_eq!((windows.base(), windows.count(), windows.end()), (10, 4, 20));
        assert_eq!(windows.starts().collect::<Vec<_>>(), [10, 11, 12, 13]);
        assert_eq!(windows.target(13), 17..20);
        assert_eq!([0, 1, 3, 4, 5].map(|batch| windows.drop_last(batch)), [0, 4, 3, 4, 0]);
    }

    #[test]
    fn ranges_without_a_window_are_refused() {
        let text = |context, horizon| Windows::new(0..6, context, horizon).expect_err("none").to_string();
        assert_eq!(text(4, 3), "6 rows hold no window of context 4 and horizon 3; shorten one of them");
        assert_eq!(
            text(usize::MAX, 1),
            format!("6 rows hold no window of context {} and horizon 1; shorten one of them", usize::MAX)
        );
        assert_eq!(text(0, 3), "the context is 0; give at least 1 row");
        assert_eq!(text(4, 0), "the horizon is 0; give at least 1 step");
        assert_eq!(Windows::new(0..7, 4, 3).expect("one").count(), 1);
    }
}
