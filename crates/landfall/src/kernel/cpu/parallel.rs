//! Parallel work: partitioned by shape, never by the number of threads, so results do not depend on it.

use super::isa;
use super::view::ViewMut;
use crate::values::Element;

/// A value that can be split along its first axis: outputs of a kernel, and tuples of them.
pub trait Split: Sized + Send {
    /// Whether it can be split without two parts sharing memory.
    fn splits(&self) -> bool;
    /// The first `at` indices, and the rest.
    fn split(self, at: usize) -> (Self, Self);
}

impl<T: Element> Split for ViewMut<'_, T> {
    fn splits(&self) -> bool {
        match (self.layout().strides(), self.dims()) {
            ([first, strides @ ..], [_, dims @ ..]) => {
                let span: usize = dims.iter().zip(strides).map(|(&d, &s)| d.saturating_sub(1) * s).sum();
                *first > span
            }
            _ => false,
        }
    }

    fn split(self, at: usize) -> (Self, Self) {
        let layout = *self.layout();
        let rest = self.outer() - at;
        let cut = layout.offset() + at * layout.strides()[0];
        let (low, high) = (layout.slice(0, 0, at, 1), layout.slice(0, at, rest, 1));
        let (low, high) = (low.unwrap_or(layout), high.unwrap_or(layout));
        let data = self.into_data();
        let (a, b) = data.split_at_mut(cut.min(data.len()));
        (ViewMut::over(a, low), ViewMut::over(b, high.at_origin()))
    }
}

/// Splits workspace along with the outputs: `width` elements for each index of the first axis.
#[derive(Debug)]
pub struct Chunks<'a, T> {
    /// The memory.
    pub data: &'a mut [T],
    /// Elements for each index.
    pub width: usize,
}

impl<T: Send> Split for Chunks<'_, T> {
    fn splits(&self) -> bool {
        true
    }

    fn split(self, at: usize) -> (Self, Self) {
        let (a, b) = self.data.split_at_mut(at * self.width);
        (Self { data: a, width: self.width }, Self { data: b, width: self.width })
    }
}

macro_rules! tuples {
    ($($name:ident $i:tt),*) => {
        impl<$($name: Split),*> Split for ($($name,)*) {
            fn splits(&self) -> bool {
                $(self.$i.splits())&&*
            }
            fn split(self, at: usize) -> (Self, Self) {
                let parts = ($(self.$i.split(at),)*);
                (($(parts.$i.0,)*), ($(parts.$i.1,)*))
            }
        }
    };
}
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);

impl<S: Split> Split for Option<S> {
    fn splits(&self) -> bool {
        self.as_ref().is_none_or(Split::splits)
    }

    fn split(self, at: usize) -> (Self, Self) {
        match self {
            Some(s) => {
                let (a, b) = s.split(at);
                (Some(a), Some(b))
            }
            None => (None, None),
        }
    }
}

/// Runs `work(start, part)` over parts of at most `grain` indices of axis 0 (`len` in all), compiled for the best
/// instruction set of the machine. The partition depends on `len` and `grain` only.
pub(crate) fn run<S: Split, F>(pool: Option<&rayon::ThreadPool>, whole: S, len: usize, grain: usize, work: F)
where
    F: Fn(usize, S) + Sync,
{
    let leaf = |start: usize, part: S| leaf(start, part, &work);
    cut(pool, whole, len, grain.max(1), &leaf);
}

/// One part, called through a pointer: what cuts and joins parts is compiled once for each kind of part, and not for each
/// kernel.
type Leaf<'a, S> = &'a (dyn Fn(usize, S) + Sync);

/// Runs the leaf on every part, on the pool's threads where there is one.
fn cut<S: Split>(pool: Option<&rayon::ThreadPool>, whole: S, len: usize, grain: usize, leaf: Leaf<'_, S>) {
    match pool {
        Some(pool) if len > grain && whole.splits() => {
            if pool.current_thread_index().is_some() {
                halve(whole, 0, len, grain, leaf);
            } else {
                pool.install(|| halve(whole, 0, len, grain, leaf));
            }
        }
        _ if len > grain && whole.splits() => serial(whole, len, grain, leaf),
        _ => leaf(0, whole),
    }
}

fn halve<S: Split>(part: S, start: usize, len: usize, grain: usize, leaf: Leaf<'_, S>) {
    if len <= grain {
        leaf(start, part);
        return;
    }
    let at = len.div_ceil(grain).div_ceil(2) * grain;
    let (a, b) = part.split(at);
    rayon::join(|| halve(a, start, at, grain, leaf), || halve(b, start + at, len - at, grain, leaf));
}

/// The same parts one after the other: one thread gives the bytes that many give.
fn serial<S: Split>(mut rest: S, len: usize, grain: usize, leaf: Leaf<'_, S>) {
    let mut start = 0;
    while len - start > grain {
        let (part, tail) = rest.split(grain);
        leaf(start, part);
        rest = tail;
        start += grain;
    }
    leaf(start, rest);
}

/// One part, compiled for the machine's instruction set. Never inlined: each kernel's closure is compiled once per
/// instruction set, and not again at every call site.
#[inline(never)]
fn leaf<S: Split, F: Fn(usize, S) + Sync>(start: usize, part: S, work: &F) {
    isa::vectorised(
        #[inline(always)]
        || work(start, part),
    );
}
