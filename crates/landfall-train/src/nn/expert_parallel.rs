//! A mixture of experts whose experts are shared out among ranks.

use super::context::Context;
use super::moe::{MoeFeedForward, MoeOutput};
use landfall::ops::{
    AllToAll, ChunkMap, Concat, CumSum, GroupedMatMul, Index, Iota, Permute, RouteMap, SortChunks, Unpermute,
};
use landfall::{DType, Error, Graph, Rule, Spec, Value, World};

/// A [`MoeFeedForward`] whose tokens travel: each rank computes the experts of its own for the tokens of all ranks.
///
/// Of R ranks, rank r has experts `r·E/R` up to `(r + 1)·E/R`. A rank sorts its pairs of token and expert into R buffers of a fixed
/// number of rows, one for each rank; all-to-all brings them there; the rows are sorted by expert, pass the experts, and come back
/// the same way. Results are those of the layer on one rank, and the loads, dropped pairs and the load-balancing loss are those of
/// the rank's own tokens.
///
/// Every rank keeps the weights of all experts and has gradients for its own, zeros for the others: the mean over ranks that data
/// parallel training takes is then that of the layer on one rank. Source: Lepikhin et al., "GShard" (2020).
///
/// ```
/// use landfall::World;
/// use landfall_train::nn::{MoeConfig, MoeFeedForward, Parameters};
/// let mut p = Parameters::new();
/// let config =
///     MoeConfig { experts: 4, chosen: 2, features: 8, hidden: 32, capacity: None, align: 1, balance: 0.01 };
/// let layer = MoeFeedForward::new(&mut p, "moe", config);
/// let world = World::single(); // an engine's: engine.world()
/// assert!(layer.across(&world).is_ok());
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ExpertParallel {
    layer: MoeFeedForward,
    rank: usize,
    ranks: usize,
}

/// Where the pairs of this rank's tokens with the experts of one rank lie.
struct Sent {
    map: Value,
    source: Value,
    rows: Value,
    counts: Value,
}

impl MoeFeedForward {
    /// The layer with its experts shared out among the ranks of a world.
    ///
    /// # Errors
    /// The ranks must divide the number of experts.
    pub fn across(self, world: &World) -> Result<ExpertParallel, Error> {
        let (rank, ranks) = (world.rank(), world.size());
        if !self.config.experts.is_multiple_of(ranks) {
            let rule =
                Rule::Attribute { name: "ranks", value: ranks as f64, expected: "a divisor of the experts" };
            return Err(rule.of("moe", &[], None, None).into());
        }
        Ok(ExpertParallel { layer: self, rank, ranks })
    }
}

impl ExpertParallel {
    /// Experts of a rank.
    fn own(&self) -> usize {
        self.layer.config.experts / self.ranks
    }

    /// `[.., D]` → the same shape, as [`MoeFeedForward::forward`]. A capacity is divided among the ranks: pairs beyond
    /// `capacity / ranks` for one rank's experts are dropped, and counted ([`MoeOutput::dropped`]).
    ///
    /// # Errors
    /// As [`MoeFeedForward::forward`]; another rank fails or does not come.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, x: Value) -> Result<MoeOutput, Error> {
        let (g, c, own) = (cx.graph, self.layer.config, self.own());
        let shape = g.shape(x);
        let (flat, tokens) = self.layer.tokens(cx, x)?;
        let (chosen, balance) = g.full_precision(|| self.layer.route(cx, flat, tokens))?;
        let most = c.chosen.min(own);
        let rows = c.capacity.map_or(tokens * most, |capacity| capacity / self.ranks);
        let sent = (0..self.ranks)
            .map(|rank| {
                let routed = g.slice(chosen[0], 1, rank * own, own)?;
                let maps = g.op(RouteMap { most, rows, align: 1, index: Index::I32 }, &[routed])?;
                let (map, source) = (maps[0], maps[1]);
                Ok(Sent {
                    map,
                    source,
                    rows: g.op1(Permute::default(), &[flat, map, source])?,
                    counts: maps[2],
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let all =
            |each: fn(&Sent) -> Value| g.op1(Concat { axis: 0 }, &sent.iter().map(each).collect::<Vec<_>>());
        let load = all(|sent| sent.counts)?;
        let travel = |x| g.op1(AllToAll { ranks: self.ranks }, &[x]);
        let arrived = Arrived::new(g, travel(load)?, (self.ranks, own, rows))?;
        let inside = g.op1(SortChunks::default(), &[travel(all(|sent| sent.rows)?)?, arrived.map])?;
        let experts = |x, weights| {
            let own = g.slice(weights, 0, self.rank * own, own)?;
            g.op1(GroupedMatMul, &[x, own, arrived.counts, arrived.offsets])
        };
        let out = self.layer.experts(cx, inside, experts)?;
        let back = travel(g.op1(SortChunks { inverse: true, probs: false }, &[out, arrived.map])?)?;
        let mut merged: Option<Value> = None;
        for (rank, sent) in sent.iter().enumerate() {
            let (of, weights) =
                (g.slice(back, 0, rank * rows, rows)?, g.slice(chosen[1], 1, rank * own, own)?);
            let part = g.op1(Unpermute, &[of, sent.map, sent.source, weights])?;
            merged = Some(merged.map_or(Ok(part), |sum| g.add(sum, part))?);
        }
        // A world has at least one rank.
        let merged = merged.unwrap_or(flat);
        self.layer.output(cx, (g.reshape(merged, shape)?, balance, load), tokens)
    }
}

/// What came from all ranks, sorted by expert.
struct Arrived {
    /// Where each row goes.
    map: Value,
    /// Rows of each expert of this rank.
    counts: Value,
    /// The first row of each, and the end of the last.
    offsets: Value,
}

impl Arrived {
    /// Of `counts`: for each rank that sent, the rows for each of this rank's experts, at the beginning of a buffer of `rows`.
    fn new(g: &Graph, counts: Value, (ranks, own, rows): (usize, usize, usize)) -> Result<Self, Error> {
        let int = |x| g.cast(x, DType::I32);
        let by_rank = g.reshape(counts, [ranks, own])?;
        // What is empty of a buffer is a chunk of its own, which goes behind all experts.
        let taken = int(g.sum(by_rank, [1])?)?;
        let empty = g.sub(g.fill(DType::I32, [ranks], rows as f64)?, taken)?;
        let chunks = g.op1(Concat { axis: 1 }, &[by_rank, g.reshape(empty, [ranks, 1])?])?;
        let sizes = g.reshape(chunks, [ranks * (own + 1)])?;
        // Chunk (expert, rank) of the sorted rows is chunk (rank, expert) of those that came.
        let spec = Spec::new(DType::I32, [own + 1, ranks]);
        let along = |axis, step| g.op1(Iota { spec, axis, start: 0.0, step }, &[]);
        let order = g.reshape(g.add(along(1, (own + 1) as f64)?, along(0, 1.0)?)?, [ranks * (own + 1)])?;
        let map = g.op1(ChunkMap { rows: ranks * rows }, &[sizes, order])?;
        let counts = int(g.sum(by_rank, [0])?)?;
        let ends = int(g.op1(CumSum { axis: 0, reverse: false }, &[counts])?)?;
        let offsets = g.op1(Concat { axis: 0 }, &[g.fill(DType::I32, [1], 0.0)?, ends])?;
        Ok(Self { map, counts, offsets })
    }
}
