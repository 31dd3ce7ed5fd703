//! Optimizer state that ranks share out (ZeRO, stage 1: Rajbhandari et al. 2020): which elements of the parameters' slab a rank
//! updates, what a step does around that update, and how the state comes together for a checkpoint.
//!
//! A bucket of gradients is a stretch of the slab, or two: the first and what remains at the end. Of a bucket of `L` elements each of
//! `n` ranks has a block of `⌈L/n⌉` elements, rounded up to the alignment of entries; zeros are appended until the blocks are full. A
//! rank's shard is the elements of its blocks in the order of the slab, so that groups and what decays are ranges of it as they are
//! of the slab, and zeros behind them up to the length of all blocks: shards are of one size, whatever the ranks hold.

use super::names::{AVERAGE, Moment, PARAMETERS};
use super::ranks::{Bucket, Ranks, buckets, part};
use super::{Optimizer, TrainingOptions};
use landfall::ops::{self, AllGather};
use landfall::{DType, ENTRY_ALIGNMENT, Error, Graph, HostTensor, Rule, Slab, Spec, State, Value, World};
use std::ops::Range;

/// How the elements of the parameters' slab are shared out.
#[derive(Debug, Clone)]
pub(super) struct Shards {
    ranks: Ranks,
    /// The parameters of each bucket.
    buckets: Vec<Bucket>,
    /// The elements of the slab of each bucket, in the order in which it packs them.
    stretches: Vec<Vec<Range<usize>>>,
    /// Elements of the slab.
    whole: usize,
}

/// Elements that lie together in the slab and in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// Its bucket, and its first element in the rank's block of that.
    block: (usize, usize),
    /// Its first element in the slab.
    slab: usize,
    /// Its first element in the shard.
    own: usize,
    len: usize,
}

impl Shards {
    /// How these options share out a slab of parameters; `None` where each rank has all of the state.
    pub(super) fn of(parameters: &Slab, options: &TrainingOptions, ranks: Ranks) -> Option<Self> {
        if !options.shard_optimizer || ranks.size == 1 {
            return None;
        }
        let entries = &parameters.entries;
        let buckets = match options.accumulate {
            1 => buckets(entries.iter().map(|e| e.shape.elements() * parameters.dtype.size())),
            // The mean over micro-batches is there at once.
            _ => vec![Bucket::of(0..entries.len())],
        };
        let offset = |i: usize| entries.get(i).map_or(parameters.elements, |e| e.offset);
        let elements = |bucket: &Bucket| -> Vec<Range<usize>> {
            bucket.ranges().map(|r| offset(r.start)..offset(r.end)).collect()
        };
        let stretches = buckets.iter().map(elements).collect();
        Some(Self { ranks, buckets, stretches, whole: parameters.elements })
    }

    /// Those of a state.
    ///
    /// # Errors
    /// [`Error::NoEntry`] for the state of something else.
    pub(super) fn of_state(
        state: &State,
        options: &TrainingOptions,
        ranks: Ranks,
    ) -> Result<Option<Self>, Error> {
        Ok(Self::of(state.spec().find_slab(PARAMETERS)?.1, options, ranks))
    }

    /// Elements of a bucket.
    fn len(&self, bucket: usize) -> usize {
        self.stretches[bucket].iter().map(Range::len).sum()
    }

    /// Elements of each rank's block of a bucket.
    fn block(&self, bucket: usize) -> usize {
        self.len(bucket).div_ceil(self.ranks.size).next_multiple_of(ENTRY_ALIGNMENT)
    }

    /// Elements of a shard.
    pub(super) fn elements(&self) -> usize {
        (0..self.buckets.len()).map(|bucket| self.block(bucket)).sum()
    }

    /// What a rank's shard holds, in order.
    fn pieces(&self, rank: usize) -> Vec<Piece> {
        let mut all = Vec::new();
        for (bucket, stretches) in self.stretches.iter().enumerate() {
            let block = self.block(bucket);
            let (from, until) = (rank * block, (rank + 1) * block);
            let mut at = 0;
            for stretch in stretches {
                let (first, end) = (from.max(at), until.min(at + stretch.len()));
                if first < end {
                    let (slab, len) = (stretch.start + first - at, end - first);
                    all.push(Piece { block: (bucket, first - from), slab, own: 0, len });
                }
                at += stretch.len();
            }
        }
        all.sort_by_key(|piece| piece.slab);
        let mut own = 0;
        for piece in &mut all {
            piece.own = own;
            own += piece.len;
        }
        all
    }

    /// Elements of this rank's shard that lie before this one of the slab.
    pub(super) fn before(&self, element: usize) -> usize {
        let before = |p: &Piece| element.saturating_sub(p.slab).min(p.len);
        self.pieces(self.ranks.rank).iter().map(before).sum()
    }

    /// This rank's shard of the mean of all ranks' gradients. Each bucket is combined as soon as its last gradient is there.
    pub(super) fn scattered(&self, g: &Graph, gradients: &[Value]) -> Result<Value, Error> {
        let mut blocks = Vec::new();
        for (number, bucket) in self.buckets.iter().enumerate() {
            blocks.push(self.reduced(g, number, bucket.members(gradients))?);
        }
        self.assembled(g, &blocks)
    }

    /// The same of gradients that are packed already.
    pub(super) fn scattered_packed(&self, g: &Graph, gradients: Value) -> Result<Value, Error> {
        let block = self.reduced(g, 0, vec![gradients])?;
        self.assembled(g, &[block])
    }

    /// This rank's block of the mean of a bucket.
    fn reduced(&self, g: &Graph, number: usize, mut members: Vec<Value>) -> Result<Value, Error> {
        let missing = self.block(number) * self.ranks.size - self.len(number);
        if missing > 0 {
            members.push(g.fill(g.spec(members[0]).dtype, [missing], 0.0)?);
        }
        let packed = g.op1(ops::Pack, &members)?;
        Ok(g.name(self.ranks.scattered(g, packed)?, &format!("gradients of bucket {number}")))
    }

    /// A shard of this rank's blocks of all buckets. Their zeros are those behind it: a rank that holds nothing of a bucket still
    /// needs its block, so that all ranks combine all buckets.
    fn assembled(&self, g: &Graph, blocks: &[Value]) -> Result<Value, Error> {
        let rank = self.ranks.rank;
        let held = self.pieces(rank).into_iter().map(|p| (p.block, p.len));
        let zeros = (0..blocks.len()).map(|bucket| {
            let (block, len) = (self.block(bucket), self.len(bucket));
            let first = len.saturating_sub(rank * block).min(block);
            ((bucket, first), block - first)
        });
        let parts = held.chain(zeros).filter(|(_, len)| *len > 0);
        let part =
            |((bucket, first), len): ((usize, usize), usize)| part(g, blocks[bucket], first..first + len);
        match parts.map(part).collect::<Result<Vec<_>, _>>()?.as_slice() {
            [whole] => Ok(*whole),
            parts => g.op1(ops::Pack, parts),
        }
    }

    /// A shard of these parts of it, with the zeros behind them.
    fn filled(&self, g: &Graph, dtype: DType, mut parts: Vec<Value>) -> Result<Value, Error> {
        let held: usize = parts.iter().map(|&part| g.shape(part).elements()).sum();
        if held < self.elements() {
            parts.push(g.fill(dtype, [self.elements() - held], 0.0)?);
        }
        match parts.as_slice() {
            [whole] => Ok(*whole),
            parts => g.op1(ops::Pack, parts),
        }
    }

    /// This rank's shard of a slab, in memory of its own: what the optimizer updates.
    pub(super) fn copied(&self, g: &Graph, slab: Value) -> Result<Value, Error> {
        let parts = self.pieces(self.ranks.rank).into_iter().map(|p| g.slice(slab, 0, p.slab, p.len));
        match parts.collect::<Result<Vec<_>, _>>()?.as_slice() {
            [whole] if g.shape(*whole).elements() == self.elements() => g.copy(*whole),
            parts => self.filled(g, g.spec(slab).dtype, parts.to_vec()),
        }
    }

    /// The global norm of gradients of which each rank has a shard: squares and sums in f64, as
    /// [`GlobalNorm`](landfall::ops::GlobalNorm) of all has them but for the order of the sums.
    pub(super) fn norm(&self, g: &Graph, shard: Value) -> Result<Value, Error> {
        let own = g.op1(ops::GlobalNorm, &[g.cast(shard, DType::F64)?])?;
        let squares = self.ranks.sum(g, g.mul(own, own)?)?;
        g.cast(g.sqrt(squares)?, g.spec(shard).dtype.accumulate())
    }

    /// The slab of all ranks' shards: this rank's is made of these parts.
    pub(super) fn gathered(&self, g: &Graph, dtype: DType, own: Vec<Value>) -> Result<Value, Error> {
        let own = self.filled(g, dtype, own)?;
        let all = g.op1(AllGather { ranks: self.ranks.size }, &[own])?;
        let mut pieces = Vec::new();
        for rank in 0..self.ranks.size {
            let first = rank * self.elements();
            pieces.extend(self.pieces(rank).into_iter().map(|p| (p.slab, first + p.own, p.len)));
        }
        pieces.sort_unstable();
        let parts = pieces.into_iter().map(|(_, at, len)| g.slice(all, 0, at, len));
        match parts.collect::<Result<Vec<_>, _>>()?.as_slice() {
            [whole] => Ok(*whole),
            parts => g.op1(ops::Pack, parts),
        }
    }

    /// The elements of the slab that all ranks' shards have together.
    fn joined(&self, shards: &[HostTensor]) -> Vec<f64> {
        let mut whole = vec![0.0; self.whole];
        for (rank, shard) in shards.iter().enumerate() {
            for p in self.pieces(rank) {
                whole[p.slab..][..p.len].copy_from_slice(&shard.data[p.own..][..p.len]);
            }
        }
        whole
    }

    /// This rank's shard of the elements of a slab.
    fn cut(&self, whole: &[f64]) -> Vec<f64> {
        let mut own = vec![0.0; self.elements()];
        for p in self.pieces(self.ranks.rank) {
            own[p.own..][..p.len].copy_from_slice(&whole[p.slab..][..p.len]);
        }
        own
    }
}

/// Refuses an optimizer whose state cannot be shared out.
pub(super) fn check(optimizer: &dyn Optimizer, options: &TrainingOptions) -> Result<(), Rule> {
    if options.shard_optimizer && !optimizer.elementwise() {
        let expected = "off with an optimizer that may need all elements of a group (Optimizer::elementwise)";
        return Err(Rule::Attribute { name: "shard_optimizer", value: 1.0, expected });
    }
    Ok(())
}

/// Whether ranks share out what is kept so: the average of the weights is not, as predictions read all of it.
pub(super) fn is_shared(moment: &Moment) -> bool {
    *moment != AVERAGE
}

/// What is kept of each trainable parameter, in the order of the slab. Where ranks share it out all must call this, and each gets
/// all of it.
///
/// # Errors
/// A device fault; a rank that does not come.
pub(super) fn read_kept(
    state: &State,
    shards: Option<&Shards>,
    world: &World,
    moment: &Moment,
) -> Result<Vec<HostTensor>, Error> {
    let parameters = state.spec().find_slab(PARAMETERS)?.1;
    let Some(shards) = shards.filter(|_| is_shared(moment)) else {
        return parameters.entries.iter().map(|e| state.read_host(&moment.entry(&e.name))).collect();
    };
    let own = state.read_host(&moment.shard())?;
    let all = world.exchange(&format!("shards of {}", moment.slab), &own.to_bytes())?;
    let all: Result<Vec<_>, _> = all.iter().map(|part| HostTensor::from_bytes(own.spec, part)).collect();
    let whole = shards.joined(&all?);
    let value = |e: &landfall::Entry| {
        let spec = Spec::new(own.spec.dtype, e.shape);
        HostTensor::from_fn(spec, |i| whole[e.offset + i])
    };
    Ok(parameters.entries.iter().map(value).collect())
}

/// Writes what is kept of each trainable parameter, in the order of the slab: of what ranks share out this one's shard.
///
/// # Errors
/// A device fault.
pub(super) fn write_kept(
    state: &mut State,
    shards: Option<&Shards>,
    moment: &Moment,
    values: &[HostTensor],
) -> Result<(), Error> {
    let parameters = state.spec().find_slab(PARAMETERS)?.1.clone();
    let Some(shards) = shards.filter(|_| is_shared(moment)) else {
        let mut entries = parameters.entries.iter().zip(values);
        return entries.try_for_each(|(e, value)| state.write_host(&moment.entry(&e.name), value));
    };
    let mut whole = vec![0.0; parameters.elements];
    for (e, value) in parameters.entries.iter().zip(values) {
        whole[e.offset..][..value.data.len()].copy_from_slice(&value.data);
    }
    let own = shards.cut(&whole);
    let spec = Spec::new(parameters.dtype, [own.len()]);
    state.write_host(&moment.shard(), &HostTensor::from_fn(spec, |i| own[i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall::{Shape, StateSpec};

    fn shards(lengths: &[usize], accumulate: usize, rank: usize, size: usize) -> Shards {
        let mut spec = StateSpec::new();
        let entries: Vec<(String, Shape)> =
            lengths.iter().enumerate().map(|(i, &n)| (format!("p{i}"), [n].into())).collect();
        spec.add(PARAMETERS, DType::F32, &entries).expect("a slab");
        let options = TrainingOptions { shard_optimizer: true, accumulate, ..TrainingOptions::default() };
        let ranks = Ranks { rank, size, meets: true, ordered: false };
        Shards::of(spec.find_slab(PARAMETERS).expect("it").1, &options, ranks).expect("shards")
    }

    /// Every element belongs to one rank, shards are of one size, and what is cut comes together again.
    #[test]
    fn shards_make_the_slab() {
        let mib = 1 << 18;
        for lengths in [&[1][..], &[5, 17, 100], &[3 * mib, 7, 2 * mib, 40, 3], &[2 * mib, 2 * mib + 16, 33]]
        {
            for size in [2, 3, 5, 8] {
                for accumulate in [1, 2] {
                    let all: Vec<_> = (0..size).map(|r| shards(lengths, accumulate, r, size)).collect();
                    let n = all[0].whole;
                    let whole: Vec<f64> = (1..=n).map(|i| i as f64).collect();
                    let spec = Spec::new(DType::F64, [all[0].elements()]);
                    let own: Vec<HostTensor> = all
                        .iter()
                        .map(|s| {
                            let own = s.cut(&whole);
                            assert_eq!(own.len(), all[0].elements());
                            let held: Vec<f64> = own.iter().copied().filter(|x| *x > 0.0).collect();
                            assert!(held.is_sorted(), "a shard has the order of the slab");
                            assert_eq!(s.before(n), held.len());
                            let half = whole[n / 2];
                            assert_eq!(s.before(n / 2), held.iter().filter(|x| **x < half).count());
                            HostTensor::from_fn(spec, |i| own[i])
                        })
                        .collect();
                    assert_eq!(all[0].joined(&own), whole, "{lengths:?} on {size} ranks");
                    let each = all[0].buckets.len() * ENTRY_ALIGNMENT;
                    assert!(all[0].elements() <= n.div_ceil(size) + each, "{lengths:?} on {size} ranks");
                }
            }
        }
    }

    #[test]
    fn one_rank_has_no_shards() {
        let mut spec = StateSpec::new();
        spec.add(PARAMETERS, DType::F32, &[("p".to_owned(), [40].into())]).expect("a slab");
        let slab = spec.find_slab(PARAMETERS).expect("it").1;
        let options = TrainingOptions { shard_optimizer: true, ..TrainingOptions::default() };
        assert!(Shards::of(slab, &options, Ranks::ALONE).is_none());
        let two = Ranks { rank: 0, size: 2, meets: true, ordered: false };
        assert!(Shards::of(slab, &TrainingOptions::default(), two).is_none());
        // ⌈48/2⌉ = 24 elements are rounded up to 32; the second rank has the other 16.
        assert_eq!(Shards::of(slab, &options, two).expect("shards").elements(), 32);
    }
}
