//! A random permutation of `0..n` that is computed, not stored.

use super::philox4x32;

/// Rounds of the network: with four a Feistel network of random functions is already hard to distinguish from a random
/// permutation of a large set; the others are for small ones.
const ROUNDS: usize = 8;

/// Networks of fewer bits have halves of equal width.
const UNEVEN_BITS: u32 = 8;

/// The stream of the round keys, which no op uses.
const STREAM: u32 = u32::MAX;

/// A bijection of `0..n`, keyed by a seed and an epoch: the order in which an epoch visits its samples.
///
/// A Feistel network permutes the next power of two, with halves that differ by one bit if the number of bits is odd; a
/// value outside `0..n` is mapped again until it is inside (cycle walking), which keeps the map bijective. From 129
/// samples on that takes fewer than two passes on average; for fewer the network has an even number of bits (at most
/// four passes), because short halves of different widths mix visibly worse. So any position costs the same few
/// operations, no order is stored or sorted, and a run resumes from (seed, epoch, position).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shuffle {
    n: u64,
    /// Bits of the upper and of the lower half.
    halves: [u32; 2],
    keys: [u64; ROUNDS],
}

impl Shuffle {
    /// The order of `n` samples in an epoch.
    #[must_use]
    pub fn new(n: u64, seed: u64, epoch: u64) -> Self {
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).max(1);
        let bits = if bits < UNEVEN_BITS { bits.next_multiple_of(2) } else { bits };
        let mut keys = [0; ROUNDS];
        for (pair, chunk) in keys.chunks_exact_mut(2).enumerate() {
            let counter = [pair as u32, epoch as u32, (epoch >> 32) as u32, STREAM];
            let [a, b, c, d] = philox4x32(counter, [seed as u32, (seed >> 32) as u32]);
            chunk.copy_from_slice(&[u64::from(a) << 32 | u64::from(b), u64::from(c) << 32 | u64::from(d)]);
        }
        Self { n, halves: [bits / 2, bits.div_ceil(2)], keys }
    }

    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The sample at `position`; `None` from `n` on.
    #[must_use]
    pub fn index(&self, position: u64) -> Option<u64> {
        if position >= self.n {
            return None;
        }
        let mut value = self.permute(position);
        // The cycle of `position` returns to it, which is inside: this ends.
        while value >= self.n {
            value = self.permute(value);
        }
        Some(value)
    }

    /// One pass of the network. A round changes the upper half by the lower one and swaps them, so that their widths
    /// swap too; after an even number of rounds both are back.
    pub(super) fn permute(&self, value: u64) -> u64 {
        let mut masks = self.halves.map(|bits| u64::MAX >> (u64::BITS - bits));
        let (mut left, mut right) = (value >> self.halves[1], value & masks[1]);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & masks[0]));
            masks.swap(0, 1);
        }
        left << self.halves[1] | right
    }
}

/// Mixes each bit of `x` into all 64: the finalizer of splitmix64 (Steele, Lea and Flood 2014).
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
