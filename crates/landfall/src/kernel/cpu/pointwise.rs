//! The CPU's kernel for every pointwise op: the expression runs step by step over tiles of [`TILE`] elements that stay
//! in the L1 cache, so that each step is one vectorized loop for any expression.
//!
//! Axes with the same layout in all operands are merged first. The remaining axes are traversed as rows of the last
//! axis; a tile holds several short rows or a part of a long one.

use crate::kernel::cpu::{Call, View, ViewMut, isa};
use crate::values::{
    Binary, DType, Element, Expression, Layout, MAX_STEPS, Math, Rule, Step, Unary, collapse, with_dtype,
};

/// Elements of a tile. 24 registers of f32 are 24 KB: half of an L1 cache.
const TILE: usize = 256;
/// Prefetch distance in elements.
const AHEAD: usize = 2 * TILE;
/// Elements per task.
const GRAIN: usize = 32 * 1024;

/// Arithmetic of a tile: f32 for the float dtypes up to 32 bits, f64 if an f64 or a 64-bit integer is involved.
pub(crate) trait Arith: Math {
    fn of_f64(x: f64) -> Self;
    fn as_f64(self) -> f64;
    /// Converts an element, exactly if the dtype is not wider than this type.
    fn load<T: Element>(x: T) -> Self;
    fn store<T: Element>(self) -> T;
}

macro_rules! arith {
    ($A:ty) => {
        impl Arith for $A {
            #[inline(always)]
            fn of_f64(x: f64) -> Self {
                x as $A
            }
            #[inline(always)]
            fn as_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn load<T: Element>(x: T) -> Self {
                x.to_f64() as $A
            }
            #[inline(always)]
            fn store<T: Element>(self) -> T {
                T::from_f64(f64::from(self))
            }
        }
    };
}
arith!(f32);
arith!(f64);

/// An input of any dtype.
enum Source<'a> {
    F32(View<'a, f32>),
    F64(View<'a, f64>),
    Bf16(View<'a, half::bf16>),
    F16(View<'a, half::f16>),
    I32(View<'a, i32>),
    I64(View<'a, i64>),
    U8(View<'a, u8>),
    /// Aliases the output.
    InPlace,
}

impl<'a> Source<'a> {
    fn of(call: &Call<'a>, i: usize) -> Result<Self, Rule> {
        if call.in_place(i).is_some() {
            return Ok(Self::InPlace);
        }
        Ok(match call.dtype(i)? {
            DType::F32 => Self::F32(call.input(i)?),
            DType::F64 => Self::F64(call.input(i)?),
            DType::BF16 => Self::Bf16(call.input(i)?),
            DType::F16 => Self::F16(call.input(i)?),
            DType::I32 => Self::I32(call.input(i)?),
            DType::I64 => Self::I64(call.input(i)?),
            DType::U8 | DType::Bool => Self::U8(call.input(i)?),
        })
    }

    fn layout(&self) -> Option<Layout> {
        Some(match self {
            Self::F32(v) => *v.layout(),
            Self::F64(v) => *v.layout(),
            Self::Bf16(v) => *v.layout(),
            Self::F16(v) => *v.layout(),
            Self::I32(v) => *v.layout(),
            Self::I64(v) => *v.layout(),
            Self::U8(v) => *v.layout(),
            Self::InPlace => return None,
        })
    }

    /// Loads elements `from..from + out.len()` (row-major under `layout`) of the source.
    #[inline(always)]
    fn load<A: Arith, T: Element>(
        &self,
        layout: &Layout,
        from: usize,
        target: &ViewMut<'_, T>,
        at: usize,
        out: &mut [A],
    ) {
        match self {
            Self::F32(v) => load(v.data(), layout, from, out),
            Self::F64(v) => load(v.data(), layout, from, out),
            Self::Bf16(v) => load(v.data(), layout, from, out),
            Self::F16(v) => load(v.data(), layout, from, out),
            Self::I32(v) => load(v.data(), layout, from, out),
            Self::I64(v) => load(v.data(), layout, from, out),
            Self::U8(v) => load(v.data(), layout, from, out),
            Self::InPlace => {
                let own = target.read();
                load(own.data(), own.layout(), at, out);
            }
        }
    }
}

/// Calls `piece(position in the tile, offset in the data, length, stride)` for each part of a row within elements
/// `from..from + len`.
#[inline(always)]
pub(crate) fn pieces(
    layout: &Layout,
    from: usize,
    len: usize,
    mut piece: impl FnMut(usize, usize, usize, usize),
) {
    let cols = layout.shape().last();
    let strides = layout.strides();
    let stride = strides.last().copied().unwrap_or(1);
    let (mut row, mut col, mut done) = (from / cols, from % cols, 0);
    while done < len {
        let n = (cols - col).min(len - done);
        let start = match strides {
            [] | [_] => layout.offset(),
            [r, _] => layout.offset() + row * r,
            _ => layout.index_flat(row * cols),
        };
        piece(done, start + col * stride, n, stride);
        done += n;
        col = 0;
        row += 1;
    }
}

#[inline(always)]
fn load<A: Arith, T: Element>(data: &[T], layout: &Layout, from: usize, out: &mut [A]) {
    pieces(layout, from, out.len(), |at, start, n, stride| {
        let out = &mut out[at..at + n];
        match stride {
            1 => {
                isa::read_ahead(data, start + AHEAD, n);
                out.iter_mut().zip(&data[start..start + n]).for_each(|(o, &x)| *o = A::load(x));
            }
            0 => out.fill(A::load(data[start])),
            s => out.iter_mut().enumerate().for_each(|(j, o)| *o = A::load(data[start + j * s])),
        }
    });
}

#[inline(always)]
fn store<A: Arith, T: Element>(target: &mut ViewMut<'_, T>, from: usize, values: &[A]) {
    let layout = *target.layout();
    let data = target.data();
    pieces(&layout, from, values.len(), |at, start, n, stride| {
        let values = &values[at..at + n];
        if stride == 1 {
            isa::write_ahead(data, start + AHEAD, n);
            data[start..start + n].iter_mut().zip(values).for_each(|(o, &x)| *o = x.store());
        } else {
            values.iter().enumerate().for_each(|(j, &x)| data[start + j * stride] = x.store());
        }
    });
}

/// Runs the expression of a pointwise op over a call's operands.
///
/// # Errors
/// A rule that only a wrong kernel table can violate.
pub(crate) fn run(expression: &Expression, call: &Call<'_>) -> Result<(), Rule> {
    let out = call.output_dtype(0)?;
    let mut wide = matches!(out, DType::F64 | DType::I64 | DType::I32);
    for i in 0..call.inputs() {
        wide |= matches!(call.dtype(i)?, DType::F64 | DType::I64 | DType::I32);
    }
    with_dtype!(any out, T => if wide { typed::<f64, T>(expression, call) } else { typed::<f32, T>(expression, call) })
}

fn typed<A: Arith, T: Element>(expression: &Expression, call: &Call<'_>) -> Result<(), Rule> {
    let target = call.output::<T>(0)?;
    let mut sources: [Source<'_>; 8] = [const { Source::InPlace }; 8];
    let mut layouts = [Layout::SCALAR; 9];
    let n = call.inputs();
    if n > sources.len() {
        return Err(Rule::Arity { expected: sources.len(), got: n });
    }
    layouts[0] = *target.layout();
    for i in 0..n {
        sources[i] = Source::of(call, i)?;
        layouts[i + 1] = sources[i].layout().unwrap_or(layouts[0]);
    }
    if target.elements() == 0 {
        return Ok(());
    }
    collapse(&mut layouts[..=n]);
    let target = target.relaid(layouts[0]);
    let outer = target.outer();
    let each = target.elements() / outer;
    let (layouts, sources) = (&layouts[1..=n], &sources[..n]);
    call.parallel(target, outer, (GRAIN / each).max(1), |start, mut part| {
        let mut regs = [[A::default(); TILE]; MAX_STEPS];
        let (base, total) = (start * each, part.elements());
        let mut at = 0;
        while at < total {
            let len = TILE.min(total - at);
            for (r, step) in expression.steps().iter().enumerate() {
                if let Step::Arg(i) = *step {
                    let i = usize::from(i);
                    sources[i].load(&layouts[i], base + at, &part, at, &mut regs[r][..len]);
                }
            }
            isa::vectorised(
                #[inline(always)]
                || evaluate(expression.steps(), &mut regs, len),
            );
            store(&mut part, at, &regs[expression.steps().len() - 1][..len]);
            at += len;
        }
    });
    Ok(())
}

/// Runs every step except the arguments, which are loaded.
#[inline(always)]
fn evaluate<A: Arith>(steps: &[Step], regs: &mut [[A; TILE]; MAX_STEPS], len: usize) {
    for (r, step) in steps.iter().enumerate() {
        let (before, rest) = regs.split_at_mut(r);
        let out = &mut rest[0];
        match *step {
            Step::Arg(_) => {}
            Step::Const(c) => out[..len].fill(A::of_f64(c)),
            Step::Unary(f, x) => unary(f, &before[usize::from(x.0)], out),
            Step::Binary(f, a, b) => binary(f, &before[usize::from(a.0)], &before[usize::from(b.0)], out),
            Step::Select(c, a, b) => {
                let (c, a, b) =
                    (&before[usize::from(c.0)], &before[usize::from(a.0)], &before[usize::from(b.0)]);
                for i in 0..TILE {
                    out[i] = if c[i] != A::default() { a[i] } else { b[i] };
                }
            }
        }
    }
}

// Whole tiles, even for fewer elements: a fixed count vectorizes without a remainder loop, and the elements past the
// end are registers that are never stored.
#[inline(always)]
fn unary<A: Arith>(f: Unary, x: &[A; TILE], out: &mut [A; TILE]) {
    macro_rules! map {
        ($g:expr) => {{
            let g: fn(A) -> A = $g;
            for i in 0..TILE {
                out[i] = g(x[i]);
            }
        }};
    }
    match f {
        Unary::Neg => map!(|x| -x),
        Unary::Abs => map!(Math::abs),
        Unary::Exp => map!(Math::exp),
        Unary::Ln => map!(Math::ln),
        Unary::Sqrt => map!(Math::sqrt),
        Unary::Rsqrt => map!(Math::rsqrt),
        Unary::Recip => map!(Math::recip),
        Unary::Tanh => map!(Math::tanh),
        Unary::Erf => map!(Math::erf),
        Unary::NormalCdf => map!(Math::normal_cdf),
        Unary::Bell => map!(|x| Math::exp(x * (x * A::of_f64(-0.5)))),
        Unary::Sin => map!(Math::sin),
        Unary::Cos => map!(Math::cos),
        Unary::Sign => map!(|x| truth::<A>(x > A::default()) - truth::<A>(x < A::default())),
    }
}

#[inline(always)]
fn truth<A: Arith>(x: bool) -> A {
    if x { A::of_f64(1.0) } else { A::default() }
}

#[inline(always)]
fn binary<A: Arith>(f: Binary, a: &[A; TILE], b: &[A; TILE], out: &mut [A; TILE]) {
    macro_rules! map {
        ($g:expr) => {{
            let g: fn(A, A) -> A = $g;
            for i in 0..TILE {
                out[i] = g(a[i], b[i]);
            }
        }};
    }
    match f {
        Binary::Add => map!(|a, b| a + b),
        Binary::Sub => map!(|a, b| a - b),
        Binary::Mul => map!(|a, b| a * b),
        Binary::Div => map!(|a, b| a / b),
        Binary::Max => map!(Math::max),
        Binary::Min => map!(Math::min),
        Binary::Equal => map!(|a, b| truth(a == b)),
        Binary::Less => map!(|a, b| truth(a < b)),
        Binary::LessEqual => map!(|a, b| truth(a <= b)),
    }
}
