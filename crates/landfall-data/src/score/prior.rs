//! What the training rows of a column say of each of its forecasts, whatever makes it.

/// Bounds of the forecasts of a column of a series, scaled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// The smallest value of a forecast; minus infinity where there is none.
    pub lowest: f64,
    /// Whether the training rows had one value.
    pub constant: bool,
}

impl Default for Prior {
    /// Nothing is known.
    fn default() -> Self {
        Self { lowest: f64::NEG_INFINITY, constant: false }
    }
}

impl Prior {
    /// The value that a column keeps: it was constant in the training rows, and is so in this context. No other series has
    /// a say in it.
    ///
    /// ```
    /// use landfall_data::Prior;
    /// let prior = Prior { constant: true, ..Prior::default() };
    /// assert_eq!((prior.kept(&[5.0, 5.0]), prior.kept(&[5.0, 6.0])), (Some(5.0), None));
    /// assert_eq!(Prior::default().kept(&[5.0, 5.0]), None);
    /// ```
    pub fn kept<T: Copy + Into<f64>>(self, context: &[T]) -> Option<f64> {
        let last: f64 = context.last().copied().filter(|_| self.constant)?.into();
        context.iter().all(|&value| (value.into() - last).abs() <= ROUNDING).then_some(last)
    }
}

/// Scaled values that differ by less are one value: they have 24 bits.
const ROUNDING: f64 = 1e-6;
