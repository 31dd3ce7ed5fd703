//! The units in which a network is given a series.

/// Centre and largest distance from it of the known values of a series.
pub(crate) struct Unit {
    centre: f64,
    width: f64,
}

impl Unit {
    /// That of values; NaN where one is missing.
    pub(crate) fn of(values: &[f64]) -> Self {
        let known = || values.iter().filter(|v| !v.is_nan());
        // Halves, so that no sum or difference of two overflows.
        let (low, high) = known().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
        if low > high {
            return Self { centre: 0.0, width: 1.0 };
        }
        let (centre, width) = (low / 2.0 + high / 2.0, high / 2.0 - low / 2.0);
        Self { centre, width: if width > 0.0 { width } else { 1.0 } }
    }

    /// A value in these units.
    pub(crate) fn scaled(&self, value: f64) -> f64 {
        (value / 2.0 - self.centre / 2.0) / self.width * 2.0
    }

    /// The value that is this in these units.
    pub(crate) fn original(&self, scaled: f64) -> f64 {
        (self.centre + self.width * scaled).clamp(f64::MIN, f64::MAX)
    }
}
