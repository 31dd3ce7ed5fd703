//! Helpers of row kernels: sums in lanes, tiles of elements of any layout, workspace split along with outputs.

use crate::kernel::cpu::pointwise::{Arith, pieces};
use crate::kernel::cpu::{Call, Split, View, ViewMut};
use crate::values::{DType, Element, Math, Rule, Shape, Spec};

/// Elements summed in the accumulation dtype before they are added to an f64 total; elements of a tile on the stack.
pub(crate) const TILE: usize = 512;
/// Independent partial sums: two vectors of the widest registers in f64, so that additions overlap.
pub(crate) const LANES: usize = 16;

/// Reduces lanes pairwise by halves.
#[inline(always)]
pub(crate) fn fold<A: Arith>(mut lanes: [A; LANES], join: impl Fn(A, A) -> A) -> A {
    let mut n = LANES / 2;
    while n > 0 {
        for l in 0..n {
            lanes[l] = join(lanes[l], lanes[l + n]);
        }
        n /= 2;
    }
    lanes[0]
}

/// Reduces `x`, at most a tile of values, in lanes initialized to `start`: values by `add`, lanes by `join`.
#[inline(always)]
pub(crate) fn join<A: Arith>(x: &[A], start: A, add: impl Fn(A, A) -> A, join: impl Fn(A, A) -> A) -> A {
    let mut lanes = [start; LANES];
    let whole = x.chunks_exact(LANES);
    let rest = whole.remainder();
    for c in whole {
        for l in 0..LANES {
            lanes[l] = add(lanes[l], c[l]);
        }
    }
    for (l, &v) in lanes.iter_mut().zip(rest) {
        *l = add(*l, v);
    }
    fold(lanes, join)
}

/// The maximum of `x`, NaN if there is one.
#[inline(always)]
pub(crate) fn max<A: Arith>(x: &[A]) -> A {
    join(x, A::of_f64(f64::NEG_INFINITY), Math::max, Math::max)
}

/// `Σ f(x)`, of at most a tile.
#[inline(always)]
pub(crate) fn sum<A: Arith>(x: &[A], f: impl Fn(A) -> A) -> A {
    join(x, A::default(), |s, v| s + f(v), |s, v| s + v)
}

/// `Σ f(x, y)`, of at most a tile.
#[inline(always)]
pub(crate) fn sum2<A: Arith>(x: &[A], y: &[A], f: impl Fn(A, A) -> A) -> A {
    let mut lanes = [A::default(); LANES];
    let (whole, other) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let (rest, rest_other) = (whole.remainder(), other.remainder());
    for (a, b) in whole.zip(other) {
        for l in 0..LANES {
            lanes[l] = lanes[l] + f(a[l], b[l]);
        }
    }
    for ((l, &a), &b) in lanes.iter_mut().zip(rest).zip(rest_other) {
        *l = *l + f(a, b);
    }
    fold(lanes, |a, b| a + b)
}

/// A view with as few axes as possible, for row-major traversal.
pub(crate) fn flat<'a, T: Element>(x: &View<'a, T>) -> View<'a, T> {
    x.with_layout(x.layout().collapsed())
}

/// Widens elements `from..from + out.len()` in row-major order.
#[inline(always)]
pub(crate) fn load<T: Element>(x: &View<'_, T>, from: usize, out: &mut [T::Acc]) {
    let data = x.data();
    pieces(x.layout(), from, out.len(), |at, start, n, stride| {
        let out = &mut out[at..at + n];
        if stride == 1 {
            for (o, v) in out.iter_mut().zip(&data[start..start + n]) {
                *o = v.widen();
            }
        } else {
            for (j, o) in out.iter_mut().enumerate() {
                *o = data[start + j * stride].widen();
            }
        }
    });
}

/// Rounds `values` into elements `from..` in row-major order.
#[inline(always)]
pub(crate) fn store<T: Element>(out: &mut ViewMut<'_, T>, from: usize, values: &[T::Acc]) {
    let layout = *out.layout();
    let data = out.data();
    pieces(&layout, from, values.len(), |at, start, n, stride| {
        let values = &values[at..at + n];
        if stride == 1 {
            for (o, &v) in data[start..start + n].iter_mut().zip(values) {
                *o = T::narrow(v);
            }
        } else {
            for (j, &v) in values.iter().enumerate() {
                data[start + j * stride] = T::narrow(v);
            }
        }
    });
}

/// An output as a matrix of this many columns, and whether its rows may be split; else with its own layout, in which
/// rows are counted likewise.
pub(crate) fn rows<'a, T: Element>(out: ViewMut<'a, T>, dims: &[usize]) -> (ViewMut<'a, T>, bool) {
    let merged = Shape::new(dims).and_then(|s| out.layout().fits(s));
    match merged {
        Some(layout) => (out.relaid(layout), true),
        None => (out, false),
    }
}

/// Elements of scratch memory cut one after the other.
#[inline(always)]
pub(crate) fn cut<'a, A>(rest: &mut &'a mut [A], len: usize) -> &'a mut [A] {
    let (part, tail) = std::mem::take(rest).split_at_mut(len);
    *rest = tail;
    part
}

/// Workspace of tasks: `width` elements for every `each` indices of the first axis.
#[derive(Debug)]
pub(crate) struct Slots<'a, T> {
    /// The memory.
    pub(crate) data: &'a mut [T],
    /// Indices that share one slot: the grain of the parallel run.
    pub(crate) each: usize,
    /// Elements of a slot.
    pub(crate) width: usize,
}

impl<T: Send> Split for Slots<'_, T> {
    fn splits(&self) -> bool {
        true
    }

    fn split(self, at: usize) -> (Self, Self) {
        let cut = (at / self.each * self.width).min(self.data.len());
        let (a, b) = self.data.split_at_mut(cut);
        (Self { data: a, ..self }, Self { data: b, each: self.each, width: self.width })
    }
}

/// Saved statistics of a forward pass, in f32 or f64 for any dtype of the elements.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SavedStat<'a> {
    F32(View<'a, f32>),
    F64(View<'a, f64>),
}

impl<'a> SavedStat<'a> {
    /// Input `i` of a call.
    ///
    /// # Errors
    /// Its dtype must be f32 or f64.
    pub(crate) fn of(call: &Call<'a>, i: usize) -> Result<Self, Rule> {
        let dtype = call.dtype(i)?;
        if dtype == DType::F64 { call.input(i).map(Self::F64) } else { call.input(i).map(Self::F32) }
    }

    /// Element `i` in row-major order.
    #[inline(always)]
    pub(crate) fn get<A: Arith>(&self, i: usize) -> A {
        match self {
            Self::F32(v) => A::load(v.flat(i)),
            Self::F64(v) => A::load(v.flat(i)),
        }
    }
}

/// Checks the dtype of saved statistics.
pub(crate) fn saved_stat_dtype(args: &[Spec], arg: usize) -> Result<(), Rule> {
    match args[arg].dtype {
        DType::F32 | DType::F64 => Ok(()),
        dtype @ (DType::BF16 | DType::F16 | DType::I32 | DType::I64 | DType::U8 | DType::Bool) => {
            Err(Rule::Dtype { arg, dtype, expected: "f32 or f64" })
        }
    }
}
