//! Samples of a time.

use serde_json::{Value, json};

/// Samples of one side of a row, in microseconds of one step.
#[derive(Debug, Clone)]
pub(crate) struct Samples {
    /// `torch-compile`, say.
    pub(crate) name: String,
    pub(crate) us: Vec<f64>,
}

impl Samples {
    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.us.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The middle sample, or the mean of the two in the middle.
    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
        0.5 * (at(sorted.len().saturating_sub(1) / 2) + at(sorted.len() / 2))
    }

    /// The smallest and the largest sample.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let sorted = self.sorted();
        (sorted.first().copied().unwrap_or(f64::NAN), sorted.last().copied().unwrap_or(f64::NAN))
    }

    pub(crate) fn json(&self) -> Value {
        let (least, most) = self.spread();
        json!({"name": self.name, "us": self.median(), "least_us": least, "most_us": most, "samples": self.us.len()})
    }
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn medians() {
        let samples = |us: &[f64]| Samples { name: String::new(), us: us.to_vec() };
        assert_eq!(samples(&[9.0, 1.0, 4.0]).median(), 4.0);
        assert_eq!(samples(&[9.0, 1.0, 4.0, 2.0]).median(), 3.0);
        assert_eq!(samples(&[7.0]).median(), 7.0);
        assert_eq!(samples(&[9.0, 1.0, 4.0]).spread(), (1.0, 9.0));
    }
}
