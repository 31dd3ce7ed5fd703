//! Pseudorandom numbers (SplitMix64): a case is made again from its seed and its number.

/// A stream of numbers.
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a case.
    pub(crate) fn of(seed: u64, case: u64) -> Self {
        let mut random = Self(seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.next();
        Self(random.next() ^ case)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for no numbers.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }

    /// A number from 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
