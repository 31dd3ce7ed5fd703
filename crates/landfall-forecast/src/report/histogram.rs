//! Counts of values whose range is not known before.

/// Bins on either side of 0.
const HALF: usize = 64;

/// A histogram about 0 in bounded memory: where a value lies outside, bins are joined in pairs.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    width: f64,
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { width: 1.0 / 1024.0, counts: vec![0; 2 * HALF] }
    }
}

impl Histogram {
    /// Counts a value, if it is finite.
    pub(super) fn add(&mut self, x: f64) {
        if !x.is_finite() {
            return;
        }
        while !(-(HALF as f64)..HALF as f64).contains(&(x / self.width)) {
            self.join();
        }
        let bin = ((x / self.width).floor() + HALF as f64) as usize;
        self.counts[bin.min(2 * HALF - 1)] += 1;
    }

    /// Bins of twice the width.
    fn join(&mut self) {
        let pairs: Vec<u64> = self.counts.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
        self.counts.fill(0);
        self.counts[HALF / 2..HALF / 2 + HALF].copy_from_slice(&pairs);
        self.width *= 2.0;
    }

    /// Lower end, upper end and count of each bin from the first one that holds a value to the last.
    pub(super) fn bins(&self) -> Vec<(f64, f64, u64)> {
        let first = self.counts.iter().position(|c| *c > 0).unwrap_or(0);
        let last = self.counts.iter().rposition(|c| *c > 0).map_or(0, |last| last + 1);
        let low = |bin: usize| (bin as f64 - HALF as f64) * self.width;
        (first..last).map(|bin| (low(bin), low(bin + 1), self.counts[bin])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_joined_and_no_value_is_lost() {
        let mut histogram = Histogram::default();
        [0.0, 0.01, -0.01, 3.0, -900.0, f64::NAN].into_iter().for_each(|x| histogram.add(x));
        let bins = histogram.bins();
        assert_eq!(bins.iter().map(|b| b.2).sum::<u64>(), 5);
        assert!(bins[0].0 <= -900.0 && -900.0 < bins[0].1, "{bins:?}");
        assert_eq!(histogram.width, 16.0);
        assert_eq!(bins.last().map(|b| (b.0, b.2)), Some((0.0, 3)));
    }
}
