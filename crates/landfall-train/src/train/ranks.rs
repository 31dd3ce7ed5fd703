//! What the ranks of a step do together: the mean of their gradients, in buckets while the backward pass goes on, and of what the
//! step reports.

use landfall::ops::{self, AllGather, AllReduce, AllToAll, ReduceScatter, Reduction};
use landfall::{ENTRY_ALIGNMENT, Error, Graph, Shape, Value, World};
use std::ops::Range;

/// Bytes of gradients that are combined at once, at least: fewer make a collective wait for its latency, more leave less of the
/// backward pass to hide it behind.
const BUCKET: usize = 8 << 20;

/// A rank among those that compute a step together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranks {
    /// Its number.
    pub(super) rank: usize,
    /// How many there are.
    pub(super) size: usize,
    /// Whether the step has collectives: of one rank too, if it was launched as such.
    pub(super) meets: bool,
    /// Whether sums are taken in the order of the ranks, whatever the transport's is.
    pub(super) ordered: bool,
}

/// Gradients that are combined in one collective: ranges of the parameters in the order of their slab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bucket {
    range: Range<usize>,
    /// What remains at the end of the slab, of the first bucket.
    rest: Option<Range<usize>>,
}

impl Bucket {
    /// A bucket of neighbours.
    pub(super) fn of(range: Range<usize>) -> Self {
        Self { range, rest: None }
    }

    /// Its ranges, in the order in which they are packed.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &Range<usize>> {
        std::iter::once(&self.range).chain(&self.rest)
    }

    /// What it combines.
    pub(super) fn members(&self, gradients: &[Value]) -> Vec<Value> {
        self.ranges().flat_map(|r| &gradients[r.clone()]).copied().collect()
    }
}

/// Cuts gradients of these sizes into buckets of at least [`BUCKET`] bytes. What remains at the end goes with the first bucket:
/// the slab begins with a model's first weights and ends with its biases and norms, and both wait for the end of the backward
/// pass. A bucket of their own would cost the latency of one more collective, which nothing hides.
pub(super) fn buckets(bytes: impl Iterator<Item = usize>) -> Vec<Bucket> {
    let mut all: Vec<Bucket> = Vec::new();
    let (mut first, mut end, mut size) = (0, 0, 0);
    for bytes in bytes {
        (end, size) = (end + 1, size + bytes);
        if size >= BUCKET {
            all.push(Bucket::of(first..end));
            (first, size) = (end, 0);
        }
    }
    match all.first_mut() {
        _ if first == end => {}
        Some(bucket) => bucket.rest = Some(first..end),
        None => all.push(Bucket::of(first..end)),
    }
    all
}

/// Elements that values take in a packed buffer or in a slab.
pub(super) fn packed_elements(g: &Graph, values: &[Value]) -> usize {
    values.iter().map(|&v| g.shape(v).elements().next_multiple_of(ENTRY_ALIGNMENT)).sum()
}

/// A range of a flat value: the value itself, where that is all of it.
pub(super) fn part(g: &Graph, value: Value, range: Range<usize>) -> Result<Value, Error> {
    if range.len() == g.shape(value).elements() {
        return Ok(value);
    }
    g.slice(value, 0, range.start, range.len())
}

impl Ranks {
    /// A rank without others.
    pub(super) const ALONE: Self = Self { rank: 0, size: 1, meets: false, ordered: false };

    /// The place of an engine's world; with `rank_order` its sums are taken in the order of the ranks.
    pub(super) fn of(world: &World, rank_order: bool) -> Self {
        Self {
            rank: world.rank(),
            size: world.size(),
            meets: !world.is_alone(),
            ordered: rank_order && world.size() > 1,
        }
    }

    /// The mean of a value over the ranks: the value itself, if there is but one.
    pub(super) fn mean(self, g: &Graph, value: Value) -> Result<Value, Error> {
        if !self.meets {
            return Ok(value);
        }
        if !self.ordered {
            return g.op1(AllReduce { reduction: Reduction::Mean }, &[value]);
        }
        let shape: Shape = g.shape(value);
        let (elements, block) = (shape.elements(), shape.elements().div_ceil(self.size));
        let mut all = g.reshape(value, [elements])?;
        if block * self.size > elements {
            let rest = g.fill(g.spec(value).dtype, [block * self.size - elements], 0.0)?;
            all = g.concat(&[all, rest], 0)?;
        }
        let own = self.scattered(g, all)?;
        let all = g.op1(AllGather { ranks: self.size }, &[own])?;
        g.reshape(part(g, all, 0..elements)?, shape)
    }

    /// This rank's block of the mean of a flat value over the ranks.
    pub(super) fn scattered(self, g: &Graph, value: Value) -> Result<Value, Error> {
        if !self.ordered {
            return g.op1(ReduceScatter { ranks: self.size, reduction: Reduction::Mean }, &[value]);
        }
        let blocks = g.op1(AllToAll { ranks: self.size }, &[value])?;
        self.folded(g, blocks, 1.0 / self.size as f64)
    }

    /// The sum of a value of one element over the ranks.
    pub(super) fn sum(self, g: &Graph, value: Value) -> Result<Value, Error> {
        if !self.ordered {
            return g.op1(AllReduce { reduction: Reduction::Sum }, &[value]);
        }
        let all = g.op1(AllGather { ranks: self.size }, &[g.reshape(value, [1])?])?;
        g.reshape(self.folded(g, all, 1.0)?, g.shape(value))
    }

    /// The sum of the ranks' blocks, each multiplied by `factor` before it is added, as in the mean of micro-batches: in the order of
    /// the ranks.
    fn folded(self, g: &Graph, blocks: Value, factor: f64) -> Result<Value, Error> {
        let block = g.shape(blocks).elements() / self.size;
        let term = |rank: usize| g.affine(part(g, blocks, rank * block..(rank + 1) * block)?, factor, 0.0);
        (1..self.size).try_fold(term(0)?, |sum, rank| g.add(sum, term(rank)?))
    }

    /// The means of several small values of one dtype, in one collective.
    pub(super) fn means(self, g: &Graph, values: &[Value]) -> Result<Vec<Value>, Error> {
        if !self.meets {
            return Ok(values.to_vec());
        }
        let all = self.mean(g, g.op1(ops::Pack, values)?)?;
        let mut start = 0usize;
        values
            .iter()
            .map(|&value| {
                let shape: Shape = g.shape(value);
                let at = start.next_multiple_of(ENTRY_ALIGNMENT);
                start = at + shape.elements();
                g.reshape(g.slice(all, 0, at, shape.elements())?, shape)
            })
            .collect()
    }

    /// The mean of gradients over the ranks, packed as the slab of their parameters. Each bucket is combined where it lies as soon
    /// as its last gradient is there.
    pub(super) fn packed(self, g: &Graph, gradients: &[Value]) -> Result<Value, Error> {
        if !self.meets {
            return g.op1(ops::Pack, gradients);
        }
        let mut parts = Vec::new();
        for (number, bucket) in buckets(gradients.iter().map(|&v| g.spec(v).bytes())).iter().enumerate() {
            let mean = self.mean(g, g.op1(ops::Pack, &bucket.members(gradients))?)?;
            g.name(mean, &format!("gradients of bucket {number}"));
            let mut at = 0;
            for range in bucket.ranges() {
                let len = packed_elements(g, &gradients[range.clone()]);
                let part = if bucket.rest.is_none() { mean } else { g.slice(mean, 0, at, len)? };
                parts.push((range.start, part));
                at += len;
            }
        }
        parts.sort_by_key(|&(first, _)| first);
        let parts: Vec<Value> = parts.into_iter().map(|(_, part)| part).collect();
        match parts.as_slice() {
            [whole] => Ok(*whole),
            parts => g.op1(ops::Pack, parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_goes_with_the_first_bucket() {
        let cut = |mib: &[usize]| buckets(mib.iter().map(|mib| mib << 20));
        let first = |range, rest| Bucket { range, rest: Some(rest) };
        assert_eq!(cut(&[]), []);
        assert_eq!(cut(&[3, 3]), [Bucket::of(0..2)]);
        assert_eq!(cut(&[3, 5, 9, 4, 4]), [Bucket::of(0..2), Bucket::of(2..3), Bucket::of(3..5)]);
        assert_eq!(cut(&[3, 5, 9, 4, 1, 1]), [first(0..2, 3..6), Bucket::of(2..3)]);
        assert_eq!(cut(&[9, 1]), [first(0..1, 1..2)]);
    }
}
