//! Digits of numbers that were computed in f32.

/// The last decimal place that a scaled value of f32 holds in the unit of its column: numbers are rounded to it, so that what
/// is written has no digits of chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Digits {
    /// Its power of ten; none where all digits of f64 count.
    place: Option<i32>,
}

impl Digits {
    /// All digits of f64.
    pub const ALL: Self = Self { place: None };

    /// Those of a column of this standard deviation, whose scaled values are f32.
    ///
    /// ```
    /// use landfall_data::Digits;
    /// let digits = Digits::of_f32(2.5); // neighbouring f32 numbers about 1 are 3e-7 apart in this unit
    /// assert_eq!(digits.round(12.300000190734863), 12.3);
    /// assert_eq!(Digits::of_f32(3e6).round(1234567.8912), 1234568.0);
    /// assert_eq!(Digits::ALL.round(0.1 + 0.2), 0.1 + 0.2);
    /// ```
    #[must_use]
    pub fn of_f32(std: f64) -> Self {
        let place = (std * f64::from(f32::EPSILON)).log10().ceil();
        Self { place: (place.is_finite() && place > -300.0).then_some(place as i32) }
    }

    /// A number in these digits.
    #[must_use]
    pub fn round(self, x: f64) -> f64 {
        self.by(x, f64::round)
    }

    /// The smallest number of these digits that is not below x.
    #[must_use]
    pub fn up(self, x: f64) -> f64 {
        self.by(x, f64::ceil)
    }

    fn by(self, x: f64, whole: impl Fn(f64) -> f64) -> f64 {
        let Some(place) = self.place.filter(|_| x.is_finite()) else { return x };
        let unit = 10f64.powi(place.abs());
        let rounded = if place < 0 { whole(x * unit) / unit } else { whole(x / unit) * unit };
        // Negative zero is no number of a table.
        if rounded.is_finite() { rounded + 0.0 } else { x }
    }
}
