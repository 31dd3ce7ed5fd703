//! The CPU's kernel for every pointwise op: the expression runs step by step over tiles of [`TILE`] elements that stay
//! in the L1 cache, so that each step is one vectorized loop for any expression.
//!
//! Axes with the same layout in all operands are merged first. The remaining axes are traversed as rows of the last
//! axis; a tile holds several short rows or a part of a long one.

use crate::kernel::cpu::{Call, View, ViewMut, isa};
use crate::values::{
    Binary, DType, Element, Expression, Layout, MAX_STEPS, Math, Rule, Step, Unary, collapse, with_dtype,
};

/// Arguments of an expression.
const MAX_ARGS: usize = 8;
/// Elements of a tile. 24 registers of f32 are 24 KB: half of an L1 cache.
const TILE: usize = 256;
/// Prefetch distance in elements.
const AHEAD: usize = 2 * TILE;
/// Elements per task.
const GRAIN: usize = 32 * 1024;

/// Arithmetic of a tile, as [`Expression::arithmetic`] picks it.
trait Tile: Copy + Default + PartialEq + Send + Sync {
    fn constant(c: f64) -> Self;
    fn load<T: Element>(x: T) -> Self;
    /// 1 of a byte that is not 0.
    #[inline(always)]
    fn truth(x: u8) -> Self {
        Self::load(u8::from(x != 0))
    }
    /// An integer for a result of fewer bits than f64 has, so that the two roundings are one.
    #[inline(always)]
    fn traced(x: i64) -> Self {
        // Beyond 2⁵³ the low bits leave a trace in bit 10, if any is set: what is left fits f64.
        let low = (1 << 10) - 1;
        let short = (x & !low) | i64::from(x & low != 0) << 10;
        Self::load(if x.unsigned_abs() >> 53 == 0 { x } else { short })
    }
    fn store<T: Element>(self) -> T;
    fn unary(f: Unary, x: &[Self; TILE], out: &mut [Self; TILE]);
    fn binary(f: Binary, a: &[Self; TILE], b: &[Self; TILE], out: &mut [Self; TILE]);
}

/// Real arithmetic: f32 for the float dtypes up to 32 bits, f64 if an f64 or an integer of 32 bits or more is involved.
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

        impl Tile for $A {
            #[inline(always)]
            fn constant(c: f64) -> Self {
                c as $A
            }
            #[inline(always)]
            fn load<T: Element>(x: T) -> Self {
                <$A as Arith>::load(x)
            }
            #[inline(always)]
            fn store<T: Element>(self) -> T {
                Arith::store(self)
            }
            #[inline(always)]
            fn unary(f: Unary, x: &[Self; TILE], out: &mut [Self; TILE]) {
                unary(f, x, out);
            }
            #[inline(always)]
            fn binary(f: Binary, a: &[Self; TILE], b: &[Self; TILE], out: &mut [Self; TILE]) {
                binary(f, a, b, out);
            }
        }
    };
}
arith!(f32);
arith!(f64);

/// Integers: exact, wrapping modulo 2^64 here and to the dtype when stored.
impl Tile for i64 {
    #[inline(always)]
    fn constant(c: f64) -> Self {
        c as Self
    }
    #[inline(always)]
    fn load<T: Element>(x: T) -> Self {
        x.to_i64()
    }
    #[inline(always)]
    fn store<T: Element>(self) -> T {
        T::from_i64(self)
    }
    #[inline(always)]
    fn unary(f: Unary, x: &[Self; TILE], out: &mut [Self; TILE]) {
        match f {
            Unary::Neg => map(x, out, Self::wrapping_neg),
            Unary::Abs => map(x, out, Self::wrapping_abs),
            Unary::Sign => map(x, out, Self::signum),
            Unary::Floor | Unary::Ceil | Unary::Round => out.copy_from_slice(x),
            // An expression with one of these runs in floats.
            Unary::Exp
            | Unary::Ln
            | Unary::Sqrt
            | Unary::Rsqrt
            | Unary::Recip
            | Unary::Tanh
            | Unary::Erf
            | Unary::NormalCdf
            | Unary::Bell
            | Unary::Sin
            | Unary::Cos
            | Unary::Expm1
            | Unary::Log1p => debug_assert!(false, "{f:?} of integers"),
        }
    }
    #[inline(always)]
    fn binary(f: Binary, a: &[Self; TILE], b: &[Self; TILE], out: &mut [Self; TILE]) {
        let truth = |x: bool| Self::from(x);
        match f {
            Binary::Add => map2(a, b, out, Self::wrapping_add),
            Binary::Sub => map2(a, b, out, Self::wrapping_sub),
            Binary::Mul => map2(a, b, out, Self::wrapping_mul),
            Binary::Max => map2(a, b, out, Ord::max),
            Binary::Min => map2(a, b, out, Ord::min),
            Binary::Rem => map2(a, b, out, |a, b| {
                let r = if b == 0 { 0 } else { a.wrapping_rem(b) };
                if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
            }),
            Binary::Equal => map2(a, b, out, |a, b| truth(a == b)),
            Binary::Less => map2(a, b, out, |a, b| truth(a < b)),
            Binary::LessEqual => map2(a, b, out, |a, b| truth(a <= b)),
            Binary::Div | Binary::Pow => debug_assert!(false, "{f:?} of integers"),
        }
    }
}

/// An input of any dtype.
enum Source<'a> {
    F32(View<'a, f32>),
    F64(View<'a, f64>),
    Bf16(View<'a, half::bf16>),
    F16(View<'a, half::f16>),
    I32(View<'a, i32>),
    I64(View<'a, i64>),
    U8(View<'a, u8>),
    Bool(View<'a, u8>),
    /// Aliases the output.
    InPlace,
    /// The same, of truth values.
    InPlaceBool,
}

impl<'a> Source<'a> {
    fn of(call: &Call<'a>, i: usize) -> Result<Self, Rule> {
        let dtype = call.dtype(i)?;
        if call.in_place(i).is_some() {
            return Ok(if dtype == DType::Bool { Self::InPlaceBool } else { Self::InPlace });
        }
        Ok(match dtype {
            DType::F32 => Self::F32(call.input(i)?),
            DType::F64 => Self::F64(call.input(i)?),
            DType::BF16 => Self::Bf16(call.input(i)?),
            DType::F16 => Self::F16(call.input(i)?),
            DType::I32 => Self::I32(call.input(i)?),
            DType::I64 => Self::I64(call.input(i)?),
            DType::U8 => Self::U8(call.input(i)?),
            DType::Bool => Self::Bool(call.input(i)?),
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
            Self::U8(v) | Self::Bool(v) => *v.layout(),
            Self::InPlace | Self::InPlaceBool => return None,
        })
    }

    /// Loads elements `from..from + out.len()` (row-major under `layout`) of the source.
    #[inline(always)]
    fn load<A: Tile, T: Element>(
        &self,
        layout: &Layout,
        from: usize,
        target: &ViewMut<'_, T>,
        at: usize,
        out: &mut [A],
    ) {
        match self {
            Self::F32(v) => load(v.data(), layout, from, out, A::load),
            Self::F64(v) => load(v.data(), layout, from, out, A::load),
            Self::Bf16(v) => load(v.data(), layout, from, out, A::load),
            Self::F16(v) => load(v.data(), layout, from, out, A::load),
            Self::I32(v) => load(v.data(), layout, from, out, A::load),
            Self::I64(v) if T::DTYPE.is_float() && T::DTYPE != DType::F64 => {
                load(v.data(), layout, from, out, A::traced);
            }
            Self::I64(v) => load(v.data(), layout, from, out, A::load),
            Self::U8(v) => load(v.data(), layout, from, out, A::load),
            Self::Bool(v) => load(v.data(), layout, from, out, A::truth),
            Self::InPlace => {
                let own = target.read();
                load(own.data(), own.layout(), at, out, A::load);
            }
            Self::InPlaceBool => {
                let own = target.read();
                load(own.data(), own.layout(), at, out, |x: T| A::truth(u8::from(x.to_i64() != 0)));
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
fn load<A: Tile, T: Element>(data: &[T], layout: &Layout, from: usize, out: &mut [A], of: impl Fn(T) -> A) {
    pieces(layout, from, out.len(), |at, start, n, stride| {
        let out = &mut out[at..at + n];
        match stride {
            1 => {
                isa::read_ahead(data, start + AHEAD, n);
                out.iter_mut().zip(&data[start..start + n]).for_each(|(o, &x)| *o = of(x));
            }
            0 => out.fill(of(data[start])),
            s => out.iter_mut().enumerate().for_each(|(j, o)| *o = of(data[start + j * s])),
        }
    });
}

#[inline(always)]
fn store<A: Tile, T: Element>(target: &mut ViewMut<'_, T>, from: usize, values: &[A]) {
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

/// Writes the random words of a stream from an element on.
pub(crate) type Draw<'a> = &'a (dyn Fn(u32, u64, &mut [u32]) + Sync);

/// Runs the expression of a pointwise op over a call's operands.
///
/// # Errors
/// A rule that only a wrong kernel table can violate.
pub(crate) fn run(expression: &Expression, call: &Call<'_>) -> Result<(), Rule> {
    issue(expression, call, call.inputs(), &|_, _, _| {})
}

/// The same of an expression that draws random words; the call's last argument is where they come from.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_random(expression: &Expression, call: &Call<'_>, draw: Draw<'_>) -> Result<(), Rule> {
    issue(expression, call, call.inputs().saturating_sub(1), draw)
}

fn issue(expression: &Expression, call: &Call<'_>, n: usize, draw: Draw<'_>) -> Result<(), Rule> {
    let out = call.output_dtype(0)?;
    let mut dtypes = [out; MAX_ARGS + 1];
    for (i, dtype) in dtypes.iter_mut().take(n.min(MAX_ARGS)).enumerate() {
        *dtype = call.dtype(i)?;
    }
    let wrong = Err(Rule::Dtype { arg: 0, dtype: out, expected: "a dtype of the expression's arithmetic" });
    match expression.arithmetic(dtypes.iter().copied()) {
        DType::I64 => with_dtype!(int out, T => typed::<i64, T>(expression, call, n, draw), else wrong),
        DType::F32 => with_dtype!(narrow out, T => typed::<f32, T>(expression, call, n, draw), else wrong),
        DType::F64 | DType::BF16 | DType::F16 | DType::I32 | DType::U8 | DType::Bool => {
            with_dtype!(any out, T => typed::<f64, T>(expression, call, n, draw))
        }
    }
}

fn typed<A: Tile, T: Element>(
    expression: &Expression,
    call: &Call<'_>,
    n: usize,
    draw: Draw<'_>,
) -> Result<(), Rule> {
    let target = call.output::<T>(0)?;
    let mut sources: [Source<'_>; MAX_ARGS] = [const { Source::InPlace }; MAX_ARGS];
    let mut layouts = [Layout::SCALAR; MAX_ARGS + 1];
    if n > sources.len() {
        return Err(Rule::Arity { takes: format!("at most {MAX_ARGS} arguments"), got: n });
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
                match *step {
                    Step::Arg(i) => {
                        let i = usize::from(i);
                        sources[i].load(&layouts[i], base + at, &part, at, &mut regs[r][..len]);
                    }
                    Step::Kept { stream, last } => {
                        let mut words = [0; TILE];
                        draw(stream, (base + at) as u64, &mut words[..len]);
                        let (one, zero) = (A::constant(1.0), A::default());
                        map(&words, &mut regs[r], |word| if word <= last { one } else { zero });
                    }
                    Step::Const(_)
                    | Step::Unary(..)
                    | Step::Binary(..)
                    | Step::Select(..)
                    | Step::Rounded(..) => {}
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

/// Runs every step except the arguments and random numbers, which are there.
#[inline(always)]
fn evaluate<A: Tile>(steps: &[Step], regs: &mut [[A; TILE]; MAX_STEPS], len: usize) {
    for (r, step) in steps.iter().enumerate() {
        let (before, rest) = regs.split_at_mut(r);
        let out = &mut rest[0];
        match *step {
            Step::Arg(_) | Step::Kept { .. } => {}
            Step::Rounded(dtype, x) => {
                let x = &before[usize::from(x.0)];
                with_dtype!(float dtype, T => map(x, out, |x| A::load::<T>(x.store::<T>())), else *out = *x);
            }
            Step::Const(c) => out[..len].fill(A::constant(c)),
            Step::Unary(f, x) => A::unary(f, &before[usize::from(x.0)], out),
            Step::Binary(f, a, b) => A::binary(f, &before[usize::from(a.0)], &before[usize::from(b.0)], out),
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
fn map<X: Copy, A>(x: &[X; TILE], out: &mut [A; TILE], f: impl Fn(X) -> A) {
    for i in 0..TILE {
        out[i] = f(x[i]);
    }
}

#[inline(always)]
fn map2<A: Copy>(a: &[A; TILE], b: &[A; TILE], out: &mut [A; TILE], f: impl Fn(A, A) -> A) {
    for i in 0..TILE {
        out[i] = f(a[i], b[i]);
    }
}

#[inline(always)]
fn unary<A: Arith>(f: Unary, x: &[A; TILE], out: &mut [A; TILE]) {
    match f {
        Unary::Neg => map(x, out, |x| -x),
        Unary::Abs => map(x, out, Math::abs),
        Unary::Exp => map(x, out, Math::exp),
        Unary::Ln => map(x, out, Math::ln),
        Unary::Sqrt => map(x, out, Math::sqrt),
        Unary::Rsqrt => map(x, out, Math::rsqrt),
        Unary::Recip => map(x, out, Math::recip),
        Unary::Tanh => map(x, out, Math::tanh),
        Unary::Erf => map(x, out, Math::erf),
        Unary::NormalCdf => map(x, out, Math::normal_cdf),
        Unary::Bell => map(x, out, |x| Math::exp(x * (x * A::of_f64(-0.5)))),
        Unary::Sin => map(x, out, Math::sin),
        Unary::Cos => map(x, out, Math::cos),
        Unary::Expm1 => map(x, out, Math::expm1),
        Unary::Log1p => map(x, out, Math::log1p),
        Unary::Floor => map(x, out, Math::floor),
        Unary::Ceil => map(x, out, Math::ceil),
        Unary::Round => map(x, out, Math::round),
        Unary::Sign => map(x, out, |x| truth::<A>(x > A::default()) - truth::<A>(x < A::default())),
    }
}

#[inline(always)]
fn truth<A: Arith>(x: bool) -> A {
    if x { A::of_f64(1.0) } else { A::default() }
}

#[inline(always)]
fn binary<A: Arith>(f: Binary, a: &[A; TILE], b: &[A; TILE], out: &mut [A; TILE]) {
    match f {
        Binary::Add => map2(a, b, out, |a, b| a + b),
        Binary::Sub => map2(a, b, out, |a, b| a - b),
        Binary::Mul => map2(a, b, out, |a, b| a * b),
        Binary::Div => map2(a, b, out, |a, b| a / b),
        Binary::Max => map2(a, b, out, Math::max),
        Binary::Min => map2(a, b, out, Math::min),
        Binary::Pow => map2(a, b, out, Math::pow),
        Binary::Rem => map2(a, b, out, Math::rem),
        Binary::Equal => map2(a, b, out, |a, b| truth(a == b)),
        Binary::Less => map2(a, b, out, |a, b| truth(a < b)),
        Binary::LessEqual => map2(a, b, out, |a, b| truth(a <= b)),
    }
}
