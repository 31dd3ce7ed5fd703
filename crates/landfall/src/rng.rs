//! Stateless random numbers: each is a function of its coordinates.
//!
//! Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a
//! counter of four words and a key of two into four random words. The number of element `i` of a tensor is
//!
//! ```text
//! key     = (seed low, seed high)
//! counter = (block low, block high, step, stream)      block = i / 4
//! number  = word i % 4 of the result
//! ```
//!
//! so it depends on the seed, the step, the stream (one per op) and the index, and on nothing else: not on threads,
//! launch shapes, devices, or earlier random numbers. Words are integers, so every device computes the same ones.

use crate::kernel::cpu::isa::{Kernel, Simd, dispatch};
use std::array;
use std::f64::consts::TAU;
use std::ops::Range;

mod shuffle;

pub use shuffle::Shuffle;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Counters that [`fill_u32`] hashes together: two AVX-512 registers of each word, which hides the latency of the
/// products.
const LANES: usize = 16;

/// The four random words of a counter with a key.
#[must_use]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    philox4x32_lanes(counter.map(|word| [u64::from(word)]), key).map(|[word]| word as u32)
}

/// [`philox4x32`] of `L` counters at once, word by word: loops over lanes that vectorize when this is inlined.
///
/// A word is the lower half of a `u64`; the upper half is ignored on input and arbitrary on output. So a lane is as
/// wide as the product, and a round is two products, two shifts and four exclusive ors: nothing is narrowed or widened
/// between rounds.
#[must_use]
#[inline(always)]
pub fn philox4x32_lanes<const L: usize>(counters: [[u64; L]; 4], key: [u32; 2]) -> [[u64; L]; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counters;
    let [mut k0, mut k1] = key;
    let low = u64::from(u32::MAX);
    for _ in 0..ROUNDS {
        // Whole arrays one after the other, which become whole registers.
        let p0: [u64; L] = array::from_fn(|lane| (c0[lane] & low) * u64::from(MULTIPLIERS[0]));
        let p1: [u64; L] = array::from_fn(|lane| (c2[lane] & low) * u64::from(MULTIPLIERS[1]));
        c0 = array::from_fn(|lane| (p1[lane] >> 32) ^ c1[lane] ^ u64::from(k0));
        c2 = array::from_fn(|lane| (p0[lane] >> 32) ^ c3[lane] ^ u64::from(k1));
        (c1, c3) = (p1, p0);
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// The words of one block of four elements.
#[must_use]
pub fn block(seed: u64, step: u32, stream: u32, block: u64) -> [u32; 4] {
    philox4x32([block as u32, (block >> 32) as u32, step, stream], split(seed))
}

/// Low and high word of a seed.
fn split(seed: u64) -> [u32; 2] {
    [seed as u32, (seed >> 32) as u32]
}

/// Writes the words of elements `first_index..` (counted modulo 2⁶⁴).
pub fn fill_u32(seed: u64, step: u32, stream: u32, first_index: u64, out: &mut [u32]) {
    // Elements before the first whole block.
    let head = ((4 - first_index % 4) % 4).min(out.len() as u64);
    let (front, rest) = out.split_at_mut(head as usize);
    let words = block(seed, step, stream, first_index / 4);
    let skip = (first_index % 4) as usize;
    for (out, word) in front.iter_mut().zip(words.into_iter().skip(skip)) {
        *out = word;
    }
    let first = first_index.wrapping_add(head) / 4;
    dispatch(Fill { seed, step, stream, first, out: rest });
}

struct Fill<'a> {
    seed: u64,
    step: u32,
    stream: u32,
    first: u64,
    out: &'a mut [u32],
}

impl Kernel for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let key = split(self.seed);
        let (first, step, stream) = (self.first, self.step, self.stream);
        let (whole, rest) = self.out.as_chunks_mut::<{ 4 * LANES }>();
        for (group, out) in whole.iter_mut().enumerate() {
            draw((step, stream), first.wrapping_add((group * LANES) as u64), key, out);
        }
        let mut last = [0; 4 * LANES];
        if !rest.is_empty() {
            draw((step, stream), first.wrapping_add((whole.len() * LANES) as u64), key, &mut last);
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

/// The words of [`LANES`] blocks from `first` on, one block after the other.
#[inline(always)]
fn draw((step, stream): (u32, u32), first: u64, key: [u32; 2], out: &mut [u32; 4 * LANES]) {
    // A block has 62 bits: the index after the last is 0.
    let blocks: [u64; LANES] = array::from_fn(|lane| first.wrapping_add(lane as u64) & (u64::MAX >> 2));
    let (step, stream) = ([u64::from(step); LANES], [u64::from(stream); LANES]);
    let [w0, w1, w2, w3] = philox4x32_lanes([blocks, blocks.map(|b| b >> 32), step, stream], key);
    // Adjacent pairs first, so that the words of a block are two halves of a register's lanes.
    let low = u64::from(u32::MAX);
    let first: [u64; LANES] = array::from_fn(|lane| w0[lane] & low | w1[lane] << 32);
    let second: [u64; LANES] = array::from_fn(|lane| w2[lane] & low | w3[lane] << 32);
    for (lane, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let [a, b] = [first[lane], second[lane]];
        *out = [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32];
    }
}

/// Uniform in [0, 1): the upper 24 bits of the word.
#[must_use]
#[inline(always)]
pub fn uniform_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Uniform in [0, 1): the upper 53 bits of `high · 2³² + low`.
#[must_use]
#[inline(always)]
pub fn uniform_f64(high: u32, low: u32) -> f64 {
    let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
    bits as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// The threshold of [`keep`] for probability `p`: `p · 2³²`, rounded. It has 33 bits, so that `p = 1` keeps every word
/// and `p = 0` none; values outside [0, 1] are clamped, and NaN is 0.
#[must_use]
pub fn threshold(p: f64) -> u64 {
    (p.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64
}

/// Whether the element of this word is kept: an integer comparison, the same on every device.
#[must_use]
#[inline(always)]
pub fn keep(word: u32, threshold: u64) -> bool {
    u64::from(word) < threshold
}

/// Two independent standard normal numbers from the words of a block, by the Box-Muller transform in `f64`: `√(−2 ln
/// u)` times the cosine and the sine of `2πv`, with `u` in (0, 1] from the first two words and `v` from the others. The
/// logarithm and the sine are the platform's, so the last bits are too.
#[must_use]
pub fn normal_pair(words: [u32; 4]) -> [f64; 2] {
    let u = 1.0 - uniform_f64(words[0], words[1]);
    let v = uniform_f64(words[2], words[3]);
    let radius = (-2.0 * u.ln()).sqrt();
    let (sin, cos) = (TAU * v).sin_cos();
    [radius * cos, radius * sin]
}

/// The standard normal number of element `index`, for initial values: number `index % 2` of the pair of block
/// `index / 2`.
#[must_use]
pub fn normal(seed: u64, step: u32, stream: u32, index: u64) -> f64 {
    normal_pair(block(seed, step, stream, index / 2))[(index % 2) as usize]
}

/// Sequential random numbers, for tests and initial values: the words of a stream at step 0 in order of their index.
#[derive(Debug, Clone)]
pub struct Rng {
    seed: u64,
    stream: u32,
    index: u64,
    words: [u32; 4],
}

impl Rng {
    /// The start of a stream.
    #[must_use]
    pub fn new(seed: u64, stream: u32) -> Self {
        Self { seed, stream, index: 0, words: [0; 4] }
    }

    /// The next word.
    pub fn next_u32(&mut self) -> u32 {
        let lane = (self.index % 4) as usize;
        if lane == 0 {
            self.words = block(self.seed, 0, self.stream, self.index / 4);
        }
        self.index = self.index.wrapping_add(1);
        self.words[lane]
    }

    /// The next two words, the first one the upper.
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// Uniform in [0, 1), from two words.
    pub fn uniform(&mut self) -> f64 {
        let (high, low) = (self.next_u32(), self.next_u32());
        uniform_f64(high, low)
    }

    /// A standard normal number, from four words.
    pub fn normal(&mut self) -> f64 {
        normal_pair(array::from_fn(|_| self.next_u32()))[0]
    }

    /// A uniform integer of the range; the start of an empty range.
    pub fn range(&mut self, range: Range<usize>) -> usize {
        let span = range.end.saturating_sub(range.start) as u64;
        if span == 0 {
            return range.start;
        }
        // The upper word of a product with the span; the lower word decides when to resample, so that the distribution
        // is exact (Lemire 2019).
        let excess = span.wrapping_neg() % span;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(span);
            if product as u64 >= excess {
                return range.start + (product >> 64) as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests;
