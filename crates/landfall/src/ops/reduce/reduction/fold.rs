//! Running results of a reduction.

use super::Reduction;
use crate::kernel::cpu::pointwise::Arith;
use crate::values::{Element, Math};

/// A type of running results: floats, in tiles and then in f64, or integers, which wrap.
pub(in crate::ops) trait Fold: Copy + Send + Sync {
    /// The type of a result over tiles.
    type Total: Fold + Element;

    /// The result over nothing.
    fn start(reduction: Reduction) -> Self;
    fn load<T: Element>(x: T) -> Self;
    fn join(self, x: Self, reduction: Reduction) -> Self;
    fn total(self) -> Self::Total;
    /// The result over `count` elements.
    fn result<R: Element>(self, reduction: Reduction, count: usize) -> R;
}

macro_rules! folds_floats {
    ($($A:ident)*) => { $(
        impl Fold for $A {
            type Total = f64;

            #[inline(always)]
            fn start(reduction: Reduction) -> Self {
                match reduction {
                    Reduction::Sum | Reduction::Mean => 0.0,
                    Reduction::Max => Self::NEG_INFINITY,
                    Reduction::Min => Self::INFINITY,
                    Reduction::Prod => 1.0,
                }
            }
            #[inline(always)]
            fn load<T: Element>(x: T) -> Self {
                Arith::load(x)
            }
            #[inline(always)]
            fn join(self, x: Self, reduction: Reduction) -> Self {
                match reduction {
                    Reduction::Sum | Reduction::Mean => self + x,
                    Reduction::Max => Math::max(self, x),
                    Reduction::Min => Math::min(self, x),
                    Reduction::Prod => self * x,
                }
            }
            #[inline(always)]
            fn total(self) -> f64 {
                self.as_f64()
            }
            #[inline(always)]
            fn result<R: Element>(self, reduction: Reduction, count: usize) -> R {
                let scale = if reduction == Reduction::Mean { 1.0 / count as f64 } else { 1.0 };
                R::from_f64(self.as_f64() * scale)
            }
        }
    )* };
}
folds_floats! { f32 f64 }

impl Fold for i64 {
    type Total = Self;

    #[inline(always)]
    fn start(reduction: Reduction) -> Self {
        match reduction {
            Reduction::Sum | Reduction::Mean => 0,
            Reduction::Max => Self::MIN,
            Reduction::Min => Self::MAX,
            Reduction::Prod => 1,
        }
    }
    #[inline(always)]
    fn load<T: Element>(x: T) -> Self {
        x.to_i64()
    }
    #[inline(always)]
    fn join(self, x: Self, reduction: Reduction) -> Self {
        match reduction {
            Reduction::Sum | Reduction::Mean => self.wrapping_add(x),
            Reduction::Max => Ord::max(self, x),
            Reduction::Min => Ord::min(self, x),
            Reduction::Prod => self.wrapping_mul(x),
        }
    }
    #[inline(always)]
    fn total(self) -> Self {
        self
    }
    #[inline(always)]
    fn result<R: Element>(self, _: Reduction, _: usize) -> R {
        R::from_i64(self)
    }
}
