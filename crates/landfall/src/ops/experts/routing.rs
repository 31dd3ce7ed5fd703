//! What the ops that follow a map of rows share: `permute`, `unpermute`, their gradients, `sort_chunks`.
//!
//! Their tensors are `[T, H]` in the order of tokens and `[N, H]` in the order of rows; between them stands the compact
//! map of [`RouteMap`](crate::ops::experts::route_map::RouteMap): `map [T, 2·most + 1]`, and its inverse `source [N]`.

pub(in crate::ops) mod cuda;

use super::route_map::{RouteMap, routing};
use crate::contract::{Data, Graph, SampleArg, Spread, Tested, Value, attribute_choices, rules};
use crate::error::Error;
use crate::kernel::cpu::{Call, Row, RowMut, View};
use crate::rng::Rng;
use crate::values::{DType, Element, HostTensor, Rule, Spec};

/// Dtype of row numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// 32 bits.
    I32,
    /// 64 bits, for more than 2³¹ rows or pairs.
    I64,
}

attribute_choices!(Index: I32 = "i32", I64 = "i64");

impl Index {
    /// Its dtype.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::I32 => DType::I32,
            Self::I64 => DType::I64,
        }
    }
}

/// Whether an argument holds row numbers.
pub(in crate::ops) fn is_index(args: &[Spec], arg: usize) -> Result<(), Rule> {
    let dtype = args[arg].dtype;
    if matches!(dtype, DType::I32 | DType::I64) {
        Ok(())
    } else {
        Err(Rule::Dtype { arg, dtype, expected: "i32 or i64" })
    }
}

/// The sizes of an argument of this rank.
pub(in crate::ops) fn sizes<const N: usize>(
    args: &[Spec],
    arg: usize,
    expected: &'static str,
) -> Result<[usize; N], Rule> {
    let dims = args[arg].shape.dims();
    dims.try_into().map_err(|_| Rule::Rank { arg, rank: dims.len(), expected })
}

/// Sizes of a call that follows a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) struct Sizes {
    pub(in crate::ops) tokens: usize,
    pub(in crate::ops) rows: usize,
    pub(in crate::ops) most: usize,
}

/// Checks a map and its inverse.
pub(in crate::ops) fn map_sizes(args: &[Spec], map: usize, source: usize) -> Result<Sizes, Rule> {
    is_index(args, map)?;
    rules::same_dtype(args, map, source)?;
    let [tokens, width] = sizes(args, map, "2")?;
    let [rows] = sizes(args, source, "1")?;
    if width < 3 || width.is_multiple_of(2) {
        return Err(Rule::Attribute {
            name: "the width of the map",
            value: width as f64,
            expected: "2 · most + 1, as route_map gives it",
        });
    }
    Ok(Sizes { tokens, rows, most: width / 2 })
}

/// Row numbers in memory, whatever their dtype.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) enum Numbers<'a> {
    I32(View<'a, i32>),
    I64(View<'a, i64>),
}

impl<'a> Numbers<'a> {
    pub(in crate::ops) fn of(call: &Call<'a>, arg: usize) -> Result<Self, Rule> {
        let wide = call.dtype(arg)? == DType::I64;
        Ok(if wide { Self::I64(call.input(arg)?) } else { Self::I32(call.input(arg)?) })
    }

    pub(in crate::ops) fn at(&self, index: &[usize]) -> i64 {
        match self {
            Self::I32(view) => i64::from(view.at(index)),
            Self::I64(view) => view.at(index),
        }
    }

    pub(in crate::ops) fn dims(&self) -> &[usize] {
        match self {
            Self::I32(view) => view.dims(),
            Self::I64(view) => view.dims(),
        }
    }
}

/// Factors in memory, whatever their dtype.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) enum Factors<'a> {
    F32(View<'a, f32>),
    F64(View<'a, f64>),
    BF16(View<'a, half::bf16>),
    F16(View<'a, half::f16>),
}

impl<'a> Factors<'a> {
    pub(in crate::ops) fn of(call: &Call<'a>, arg: usize) -> Result<Self, Rule> {
        Ok(match call.dtype(arg)? {
            DType::F64 => Self::F64(call.input(arg)?),
            DType::BF16 => Self::BF16(call.input(arg)?),
            DType::F16 => Self::F16(call.input(arg)?),
            DType::F32 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => Self::F32(call.input(arg)?),
        })
    }

    pub(in crate::ops) fn at(&self, index: &[usize]) -> f64 {
        match self {
            Self::F32(view) => view.at(index).to_f64(),
            Self::F64(view) => view.at(index),
            Self::BF16(view) => view.at(index).to_f64(),
            Self::F16(view) => view.at(index).to_f64(),
        }
    }

    fn experts(&self) -> usize {
        match self {
            Self::F32(view) => view.cols(),
            Self::F64(view) => view.cols(),
            Self::BF16(view) => view.cols(),
            Self::F16(view) => view.cols(),
        }
    }
}

/// A pair of a token and an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) struct Pair {
    pub(in crate::ops) token: usize,
    pub(in crate::ops) expert: usize,
    pub(in crate::ops) row: usize,
}

/// A map on the processor. What it says is checked: a pair out of range is none.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Map<'a> {
    map: Numbers<'a>,
    source: Numbers<'a>,
    sizes: Sizes,
    experts: usize,
}

impl<'a> Map<'a> {
    /// The map and its inverse at these arguments, with the factors of its pairs; numbers out of range are reported.
    pub(in crate::ops) fn new(
        call: &Call<'a>,
        [map, source]: [usize; 2],
        factors: Option<&Factors<'_>>,
    ) -> Result<Self, Rule> {
        let (map, source) = (Numbers::of(call, map)?, Numbers::of(call, source)?);
        let (cells, rows) = (map.dims(), source.dims());
        let sizes = Sizes { tokens: cells[0], rows: rows[0], most: cells[1] / 2 };
        let experts = factors.map_or(usize::MAX, Factors::experts);
        let found = Self { map, source, sizes, experts };
        for token in 0..sizes.tokens {
            let count = map.at(&[token, 2 * sizes.most]);
            if !inside(count, sizes.most + 1) {
                call.flag(token * (2 * sizes.most + 1) + 2 * sizes.most, count, sizes.most + 1);
            }
            for j in 0..found.count(token) {
                let (row, expert) = (map.at(&[token, j]), map.at(&[token, sizes.most + j]));
                let position = token * (2 * sizes.most + 1) + j;
                if !inside(row, sizes.rows) {
                    call.flag(position, row, sizes.rows);
                } else if factors.is_some() && !inside(expert, experts) {
                    call.flag(position + sizes.most, expert, experts);
                }
            }
        }
        Ok(found)
    }

    fn count(&self, token: usize) -> usize {
        let most = self.sizes.most;
        self.map.at(&[token, 2 * most]).clamp(0, most as i64) as usize
    }

    /// The pairs of a token, from the highest expert down.
    pub(in crate::ops) fn pairs(&self, token: usize) -> impl Iterator<Item = Pair> + '_ {
        (0..self.count(token)).filter_map(move |j| self.pair(token, j))
    }

    fn pair(&self, token: usize, j: usize) -> Option<Pair> {
        let (row, expert) = (self.map.at(&[token, j]), self.map.at(&[token, self.sizes.most + j]));
        let known =
            inside(row, self.sizes.rows) && (self.experts == usize::MAX || inside(expert, self.experts));
        known.then_some(Pair { token, expert: expert as usize, row: row as usize })
    }

    /// The pair of a row, if it has one.
    pub(in crate::ops) fn of_row(&self, row: usize) -> Option<Pair> {
        let source = usize::try_from(self.source.at(&[row])).ok()?;
        let (token, j) = (source / self.sizes.most, source % self.sizes.most);
        let pair = if token < self.sizes.tokens { self.pair(token, j) } else { None };
        pair.filter(|pair| pair.row == row)
    }
}

/// The pairs of a map as values of a graph, `[T, most]` each.
pub(in crate::ops) struct Pairs {
    /// Whether there is such a pair.
    present: Value,
    /// Its row and its expert, 0 of none.
    pub(in crate::ops) rows: Value,
    experts: Value,
}

impl Pairs {
    /// Of a map `[T, 2·most + 1]`.
    pub(in crate::ops) fn of(g: &Graph, map: Value) -> Result<Self, Error> {
        let map = g.cast(map, DType::I64)?;
        let most = g.shape(map).last() / 2;
        let places = g.arange(DType::I64, 0.0, 1.0, most)?;
        let present = g.less(places, g.slice(map, 1, 2 * most, 1)?)?;
        let part = |first| {
            let numbers = g.slice(map, 1, first, most)?;
            g.select(present, numbers, g.scalar(numbers, 0.0)?)
        };
        Ok(Self { present, rows: part(0)?, experts: part(most)? })
    }

    /// Numbers of pairs, 0 of those that are none.
    pub(in crate::ops) fn known(&self, g: &Graph, of: Value) -> Result<Value, Error> {
        g.select(self.present, of, g.scalar(of, 0.0)?)
    }

    /// The numbers of `[T, E]` that stand at each pair's token and expert.
    pub(in crate::ops) fn picked(&self, g: &Graph, table: Value) -> Result<Value, Error> {
        self.known(g, g.gather(table, 1, self.experts)?)
    }

    /// `[T, E]` of the numbers of pairs, 0 where there is no pair.
    pub(in crate::ops) fn placed(&self, g: &Graph, of: Value, experts: usize) -> Result<Value, Error> {
        let spec = g.spec(of);
        let zeros = g.fill(spec.dtype, spec.shape.with(1, experts), 0.0)?;
        g.scatter_add(zeros, 1, self.experts, self.known(g, of)?)
    }
}

fn inside(number: i64, end: usize) -> bool {
    usize::try_from(number).is_ok_and(|n| n < end)
}

/// Copies a row.
pub(in crate::ops) fn copy_row<T: Element>(from: Row<'_, T>, to: &mut RowMut<'_, T>) {
    match (from.as_slice(), to.as_slice()) {
        (Some(from), Some(to)) => to.copy_from_slice(from),
        _ => (0..from.len()).for_each(|j| to.set(j, from.get(j))),
    }
}

/// Rows of a part that is worth a task.
pub(in crate::ops) fn grain(columns: usize) -> usize {
    (16 * 1024 / columns.max(1)).max(1)
}

/// A routing of samples, and what `route_map` makes of it.
pub(in crate::ops) struct Routed {
    pub(in crate::ops) tokens: usize,
    pub(in crate::ops) experts: usize,
    pub(in crate::ops) rows: usize,
    index: DType,
    results: Vec<HostTensor>,
}

impl Routed {
    pub(in crate::ops) fn new([tokens, experts]: [usize; 2], op: RouteMap) -> Self {
        let routed = routing(tokens, experts, op.most);
        let data = match routed.data {
            Data::Exact(data) => data,
            Data::Range(..) | Data::Wide | Data::Int(..) => Vec::new(),
        };
        let results =
            op.reference(&[HostTensor::from_fn(Spec::new(DType::U8, [tokens, experts]), |i| data[i])]);
        Self { tokens, experts, rows: op.rows, index: op.index.dtype(), results }
    }

    /// The routings that ops are tried on: no token, none for an expert, all for a token, padded, over the capacity.
    pub(in crate::ops) fn several() -> Vec<Self> {
        let op = |most, rows, align| RouteMap { most, rows, align, index: Index::I32 };
        vec![
            Self::new([0, 3], op(2, 4, 1)),
            Self::new([1, 1], op(1, 1, 1)),
            Self::new([7, 4], op(4, 28, 1)),
            Self::new([33, 5], op(3, 128, 8)),
            Self::new([40, 12], op(6, 300, 16)),
            Self::new([20, 6], op(2, 19, 1)),
            Self::new([20, 6], RouteMap { index: Index::I64, ..op(2, 50, 4) }),
        ]
    }

    fn result(&self, output: usize) -> SampleArg {
        let tensor = &self.results[output];
        SampleArg::with(Some(self.index), tensor.spec.shape, Data::Exact(tensor.data.clone()))
    }

    pub(in crate::ops) fn map(&self) -> SampleArg {
        self.result(0)
    }

    pub(in crate::ops) fn source(&self) -> SampleArg {
        self.result(1)
    }

    pub(in crate::ops) fn counts(&self) -> SampleArg {
        self.result(2)
    }

    pub(in crate::ops) fn offsets(&self) -> SampleArg {
        self.result(3)
    }
}

/// What arguments `rows, map, source[, factors], ..` hold in a trial: a valid map and its inverse. Each token goes to as many
/// experts as there are cells for, which are chosen as is asked; pairs for which there is no row are dropped. Without
/// factors nobody asks which experts there are.
pub(in crate::ops) fn trial_map(args: &[Spec], spread: Spread) -> Vec<Option<HostTensor>> {
    let (map, source, factors) = (args[1], args[2], args.get(3));
    let (tokens, most) = (map.shape.dims()[0], map.shape.last() / 2);
    let experts = factors.map_or(8 * most, |f| f.shape.last()).max(1);
    // A place among as many as there are pairs stands for an expert in proportion to its part.
    let parts = spread.parts(1 << 16, experts);
    let mut rng = Rng::new(0, 0);
    let mut routed = vec![0.0; tokens * experts];
    for token in routed.chunks_exact_mut(experts) {
        for _ in 0..most.min(experts) {
            let place = rng.range(0..1 << 16);
            let ends = parts.iter().scan(0, |end, n| Some(std::mem::replace(end, *end + n) + n));
            let drawn = ends.take_while(|&end| end <= place).count().min(experts - 1);
            // The next one that the token does not go to yet.
            let free = (0..experts).map(|i| (drawn + i) % experts).find(|&e| token[e] == 0.0);
            free.into_iter().for_each(|e| token[e] = 1.0);
        }
    }
    let index = if map.dtype == DType::I64 { Index::I64 } else { Index::I32 };
    let op = RouteMap { most, rows: source.shape.elements(), align: 1, index };
    let mut made = op
        .reference(&[HostTensor::from_fn(Spec::new(DType::U8, [tokens, experts]), |i| routed[i])])
        .into_iter();
    let mut next = |spec: Spec| made.next().unwrap_or_else(|| HostTensor::from_fn(spec, |_| -1.0));
    vec![None, Some(next(map)), Some(next(source))]
}

/// Row, token and expert of every pair of a map on the host, by token from the highest expert down.
pub(in crate::ops) fn pairs(map: &HostTensor) -> Vec<Pair> {
    let width = map.spec.shape.last();
    let of = |token: usize| {
        let cells = &map.data[token * width..][..width];
        // There is room for so many, whatever the count says.
        let most = (width / 2) as f64;
        (0..cells[width - 1].clamp(0.0, most) as usize).map(move |j| Pair {
            token,
            row: cells[j] as usize,
            expert: cells[width / 2 + j] as usize,
        })
    };
    (0..map.dims()[0]).flat_map(of).collect()
}
