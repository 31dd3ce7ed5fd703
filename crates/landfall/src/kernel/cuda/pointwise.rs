//! The CUDA kernel for every pointwise op: the expression as a function in CUDA C++, inside `pointwise.cu`.

use crate::kernel::cuda::{
    Arg, BLOCK, Call, Element, Entry, Failure, Geometry, Kind, Module, Param, Piece, Source, WORDS,
    param::c_type,
};
use crate::values::{Binary, DType, Expression, Layout, MAX_RANK, Operand, Reg, Rule, Step, Unary, collapse};
use arrayvec::ArrayVec;
use std::cmp::Reverse;
use std::fmt::Write;

/// Arguments of the strided kernel, which takes more than the contiguous one.
type Args<'a> = ArrayVec<Arg<'a>, { 2 * MAX_ARGS + 12 }>;

/// Maximum number of arguments of a pointwise kernel.
const MAX_ARGS: usize = 8;

/// A parameter of the one list that depends on the number of operands.
const fn param(name: &'static str, kind: Kind) -> Param {
    Param { name, kind }
}

const fn input(name: &'static str, of: &'static str) -> Param {
    param(name, Kind::Input(Element::Bound(of)))
}

/// The result, in both kernels.
const OUT: Param = param("out", Kind::Output(Element::Bound("TO")));

/// The sources for calls with and without random numbers, which have a cursor.
macro_rules! source {
    ($($x:literal $T:literal $stride:literal),*) => {
        [source!(@made "pointwise"; ; ; $($x $T $stride),*), source!(
            @made "pointwise_random";
            param("cursor", Kind::ViewIn(Element::Is(DType::I64)));
            param("stride_index", Kind::Dims);
            $($x $T $stride),*
        )]
    };
    (@made $name:literal; $($cursor:expr)?; $($index:expr)?; $($x:literal $T:literal $stride:literal),*) => {
        Source {
            name: $name,
            pieces: &[WORDS, Piece::new("pointwise", include_str!("pointwise.cu"))],
            entries: &[
                Entry {
                    name: "contiguous",
                    block: BLOCK,
                    params: &[
                        $(input($x, $T),)*
                        OUT,
                        $($cursor,)?
                        param("n", Kind::U64),
                        param("uniform", Kind::U32),
                    ],
                },
                Entry {
                    name: "strided",
                    block: BLOCK,
                    params: &[
                        $(input($x, $T),)*
                        OUT,
                        $($cursor,)?
                        param("n", Kind::U64),
                        param("length", Kind::U64),
                        param("narrow_offsets", Kind::U32),
                        param("along", Kind::U32),
                        param("along_out", Kind::U32),
                        param("rank", Kind::U32),
                        param("shape", Kind::Dims),
                        param("reciprocal", Kind::Dims),
                        param("stride_out", Kind::Dims),
                        $($index,)?
                        $(param($stride, Kind::Dims),)*
                    ],
                },
            ],
        }
    };
}

/// The sources for each number of arguments, the cursor apart.
static SOURCES: [[Source; 2]; MAX_ARGS + 1] = [
    source!(),
    source!("x0" "T0" "stride0"),
    source!("x0" "T0" "stride0", "x1" "T1" "stride1"),
    source!("x0" "T0" "stride0", "x1" "T1" "stride1", "x2" "T2" "stride2"),
    source!("x0" "T0" "stride0", "x1" "T1" "stride1", "x2" "T2" "stride2", "x3" "T3" "stride3"),
    source!("x0" "T0" "stride0", "x1" "T1" "stride1", "x2" "T2" "stride2", "x3" "T3" "stride3", "x4" "T4" "stride4"),
    source!("x0" "T0" "stride0", "x1" "T1" "stride1", "x2" "T2" "stride2", "x3" "T3" "stride3", "x4" "T4" "stride4",
            "x5" "T5" "stride5"),
    source!("x0" "T0" "stride0", "x1" "T1" "stride1", "x2" "T2" "stride2", "x3" "T3" "stride3", "x4" "T4" "stride4",
            "x5" "T5" "stride5", "x6" "T6" "stride6"),
    source!("x0" "T0" "stride0", "x1" "T1" "stride1", "x2" "T2" "stride2", "x3" "T3" "stride3", "x4" "T4" "stride4",
            "x5" "T5" "stride5", "x6" "T6" "stride6", "x7" "T7" "stride7"),
];
const TYPES: [&str; MAX_ARGS] = ["T0", "T1", "T2", "T3", "T4", "T5", "T6", "T7"];

/// Launches the kernel of the expression that `build` writes over a call's operands.
///
/// If all operands are contiguous in one order and aligned, a thread moves 16 bytes of the widest of them at once; an
/// operand of a single broadcast element is read as one. Every other layout uses the strided kernel, which iterates in
/// the memory order of the result and still vectorizes each operand whose innermost elements are adjacent and aligned.
///
/// # Errors
/// A rule that only a wrong kernel table can violate; a device fault.
pub(crate) fn run(build: impl FnOnce(&mut Expression) -> Reg, call: &mut Call<'_>) -> Result<(), Failure> {
    issue(build, call, false)
}

/// The same of an expression that draws random numbers, by the cursor that is the call's last argument.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_random(
    build: impl FnOnce(&mut Expression) -> Reg,
    call: &mut Call<'_>,
) -> Result<(), Failure> {
    issue(build, call, true)
}

fn issue(
    build: impl FnOnce(&mut Expression) -> Reg,
    call: &mut Call<'_>,
    random: bool,
) -> Result<(), Failure> {
    let (inputs, out) = (call.inputs(), call.output(0)?);
    let (inputs, cursor) = match inputs.split_last() {
        Some((cursor, inputs)) if random => (inputs, Some(cursor)),
        _ => (inputs, None),
    };
    let n = inputs.len();
    let Some(sources) = SOURCES.get(n) else {
        return Err(Rule::Arity { takes: format!("at most {MAX_ARGS} arguments"), got: n }.into());
    };
    let elements = out.layout().shape().elements();
    if elements == 0 {
        return Ok(());
    }
    let operands = || inputs.iter().chain([out]);
    let mut module = Module::new(&sources[usize::from(random)]);
    let mut arithmetic = module.evaluate(build).arithmetic(operands().map(Operand::dtype));
    // Integers wrap modulo 2^32 as modulo 2^64, in half the registers.
    if arithmetic == DType::I64 && operands().all(|o| o.dtype() != DType::I64) {
        arithmetic = DType::I32;
    }
    let widest = operands().map(|o| o.dtype().size()).max().unwrap_or(1);
    let vector = 16 / widest;
    for (name, o) in TYPES.iter().zip(inputs) {
        module.bind(name, o.dtype());
    }
    module.bind("TO", out.dtype());
    module.bind("A", arithmetic);
    module.set("VECTOR", vector as u64);
    let truth = |(i, o): (usize, &Operand)| u64::from(o.dtype() == DType::Bool) << i;
    module.set("TRUTHS", inputs.iter().enumerate().map(truth).sum());
    // Functions that are exact to f32 would be rounded to far less.
    module.set("COARSE", u64::from(widest <= 2));

    let mut args = Args::new();
    inputs.iter().for_each(|o| args.push(Arg::Input(o)));
    args.push(Arg::Output(out));
    args.extend(cursor.map(Arg::ViewIn));
    // Both are powers of two: no division.
    let address = |o: &Operand| o.address() & (vector * o.dtype().size() - 1) as u64 == 0;
    let mut contiguous = |args: &mut Args<'_>, uniform| {
        args.push(Arg::U64(elements as u64));
        args.push(Arg::U32(uniform));
        call.launch_list(&module, "contiguous", Geometry::linear(elements.div_ceil(vector), BLOCK)?, args)
    };
    // The common case; small calls are bound by host time, so it is checked first.
    let whole = |o: &Operand| o.layout().is_contiguous() && address(o);
    if whole(out) && inputs.iter().all(whole) {
        return contiguous(&mut args, 0);
    }
    // Last, the number of each element.
    let index = random.then(|| Layout::contiguous(*out.layout().shape()));
    let layouts = walk(operands().map(|o| *o.layout()).chain(index), n)?;
    // Inputs that a thread loads as a whole vector; the result's bit follows theirs.
    let aligned = |(o, l): (&Operand, &Layout)| match l.strides().split_last() {
        None => address(o),
        Some((&inner, outer)) => address(o) && inner == 1 && outer.iter().all(|s| s.is_multiple_of(vector)),
    };
    let bits = |test: &dyn Fn((&Operand, &Layout)) -> bool| {
        (operands().zip(&layouts).enumerate()).fold(0u32, |b, (i, pair)| b | u32::from(test(pair)) << i)
    };
    let along = bits(&aligned);
    let uniform = bits(&|(_, l)| l.strides().iter().all(|&s| s == 0)) & !along;
    let (rank, all) = (layouts[n].shape().rank(), (1u32 << (n + 1)) - 1);
    // A single element is never a whole vector, at any address. Elements that lie as they are numbered.
    let numbered = layouts[n..].iter().all(|l| l.strides() == layouts[n].strides());
    if rank == 0 || rank == 1 && along >> n == 1 && along | uniform == all && numbered {
        return contiguous(&mut args, uniform);
    }
    let mut shape: ArrayVec<usize, MAX_RANK> = layouts[n].shape().dims().iter().rev().copied().collect();
    let length = shape[0];
    shape[0] = length.div_ceil(vector);
    let units: usize = shape.iter().product();
    let narrow = units < 1 << 31 && layouts.iter().all(|l| l.span().len() as u64 <= 1 << 32);
    let mut reciprocals = [0; MAX_RANK];
    if narrow {
        reciprocals.iter_mut().zip(&shape).for_each(|(r, &d)| *r = reciprocal(d as u64));
    }
    args.push(Arg::U64(units as u64));
    args.push(Arg::U64(length as u64));
    args.push(Arg::U32(u32::from(narrow)));
    args.push(Arg::U32(along));
    args.push(Arg::U32(along >> n));
    args.push(Arg::U32(rank as u32));
    args.push(Arg::dims(&shape));
    args.push(Arg::Dims(reciprocals));
    for l in layouts[n..].iter().chain(&layouts[..n]) {
        let strides: ArrayVec<usize, MAX_RANK> = l.strides().iter().rev().copied().collect();
        args.push(Arg::dims(&strides));
    }
    call.launch_list(&module, "strided", Geometry::linear(units, BLOCK)?, &args)
}

/// These layouts with axes in the memory order of number `result`, and as few as possible.
fn walk(
    operands: impl Iterator<Item = Layout>,
    result: usize,
) -> Result<ArrayVec<Layout, { MAX_ARGS + 2 }>, Rule> {
    let mut layouts: ArrayVec<Layout, { MAX_ARGS + 2 }> = operands.collect();
    if let Some(out) = layouts.get(result).copied() {
        let mut axes: ArrayVec<usize, MAX_RANK> = (0..out.shape().rank()).collect();
        axes.sort_by_key(|&a| Reverse(out.strides()[a]));
        for l in &mut layouts {
            *l = l.permute(&axes)?;
        }
    }
    collapse(&mut layouts);
    Ok(layouts)
}

/// Multiplier m and shift s, as `m << 32 | s`, with i·m >> s = i / size for every i < 2³¹ (Granlund and Montgomery,
/// "Division by Invariant Integers using Multiplication", PLDI 1994): with 2^(l − 1) < size ≤ 2^l, s = 31 + l and
/// m = ⌈2^s / size⌉ < 2³²; m·size exceeds 2^s by less than size ≤ 2^l, so the product's error, less than 2^l·i / 2^s < 1
/// in units of 1 / size, never reaches the next quotient.
fn reciprocal(size: u64) -> u64 {
    let shift = 31 + u64::from(size.next_power_of_two().trailing_zeros());
    (1u64 << shift).div_ceil(size) << 32 | shift
}

/// The number of arguments that an expression reads.
fn arity(e: &Expression) -> usize {
    let arg = |s: &Step| match *s {
        Step::Arg(i) => usize::from(i) + 1,
        Step::Const(_)
        | Step::Unary(..)
        | Step::Binary(..)
        | Step::Select(..)
        | Step::Rounded(..)
        | Step::Kept { .. } => 0,
    };
    e.steps().iter().map(arg).max().unwrap_or(0)
}

/// The expression as the function `evaluate` of its arguments, each of the type `A`, with the macros by which
/// `pointwise.cu` iterates over them.
pub(crate) fn function(e: &Expression) -> String {
    let n = arity(e);
    let each = |f: &dyn Fn(usize) -> String, between: &str| (0..n).map(f).collect::<Vec<_>>().join(between);
    let mut text = String::new();
    let calls = |f: Unary| e.steps().iter().any(|s| matches!(s, Step::Unary(g, _) if *g == f));
    let normal = calls(Unary::NormalCdf) || calls(Unary::Bell);
    if normal {
        text.push_str(include_str!("normal.cu"));
    }
    if normal || calls(Unary::Exp) {
        text.push_str(include_str!("coarse.cu"));
    }
    if e.steps().iter().any(|s| matches!(s, Step::Rounded(..))) {
        text.push_str(include_str!("rounded.cu"));
    }
    let streams: Vec<u32> = e.streams().collect();
    let drawn = |f: &dyn Fn(&u32) -> String| streams.iter().map(f).collect::<Vec<_>>();
    let list = |args: String, drawn: Vec<String>| {
        Some(args).into_iter().filter(|a| !a.is_empty()).chain(drawn).collect::<Vec<_>>().join(", ")
    };
    _ = writeln!(text, "#define EACH_ARG(X) {}", each(&|i| format!("X({i})"), " "));
    _ = writeln!(text, "#define EACH_STREAM(X) {}", drawn(&|s| format!("X({s})")).join(" "));
    let args = list(each(&|i| format!("X({i})"), ", "), drawn(&|s| format!("W({s})")));
    _ = writeln!(text, "#define EVALUATE(X, W) evaluate({args})");
    let args = list(each(&|i| format!("A x{i}"), ", "), drawn(&|s| format!("u32 w{s}")));
    _ = writeln!(text, "DEVICE A evaluate({args}) {{");
    for (r, step) in e.steps().iter().enumerate() {
        _ = writeln!(text, "    const A r{r} = {};", code(*step));
    }
    _ = writeln!(text, "    return r{};\n}}", e.steps().len().saturating_sub(1));
    text
}

/// The expression in one line, for labels; truncated if it is long.
pub(crate) fn formula(e: &Expression) -> String {
    let mut text = operand(e, e.steps().len().saturating_sub(1));
    if text.len() > MAX_FORMULA {
        text.truncate(MAX_FORMULA);
        text.push_str("..");
    }
    text
}

/// Bytes of a label's formula.
const MAX_FORMULA: usize = 120;

fn operand(e: &Expression, r: usize) -> String {
    let of = |x: Reg| operand(e, usize::from(x.0));
    match e.steps().get(r) {
        None => String::new(),
        Some(Step::Arg(i)) => format!("x{i}"),
        Some(Step::Const(c)) => format!("{c}"),
        Some(Step::Unary(f, x)) => format!("{f:?}({})", of(*x)),
        Some(Step::Binary(f, a, b)) => format!("{f:?}({}, {})", of(*a), of(*b)),
        Some(Step::Select(c, a, b)) => format!("Select({}, {}, {})", of(*c), of(*a), of(*b)),
        Some(Step::Rounded(dtype, x)) => format!("{dtype}({})", of(*x)),
        Some(Step::Kept { stream, last }) => format!("Kept({stream}, {last})"),
    }
}

fn code(step: Step) -> String {
    let r = |x: Reg| format!("r{}", x.0);
    match step {
        Step::Arg(i) => format!("x{i}"),
        Step::Const(c) => constant(c),
        Step::Unary(f, x) => unary(f, &r(x)),
        Step::Binary(f, a, b) => binary(f, &r(a), &r(b)),
        Step::Select(c, a, b) => format!("{} != A(0) ? {} : {}", r(c), r(a), r(b)),
        Step::Rounded(dtype, x) => format!("rounded<{}>({})", c_type(dtype), r(x)),
        Step::Kept { stream, last } => format!("A(w{stream} <= {last}u)"),
    }
}

/// A constant that reads back as the same number.
fn constant(c: f64) -> String {
    if c.is_finite() { format!("A({c:e})") } else { format!("A(__longlong_as_double({:#x}ll))", c.to_bits()) }
}

// The functions of CUDA's mathematics library, one replaced by our own: overloaded for both types of arithmetic, accurate to
// a few units in the last place over the whole range (no fast-math).
fn unary(f: Unary, x: &str) -> String {
    match f {
        Unary::Neg => format!("negative_of({x})"),
        Unary::Abs => format!("magnitude_of({x})"),
        Unary::Exp => format!("COARSE ? coarse_exp({x}) : exp({x})"),
        Unary::Ln => format!("log({x})"),
        Unary::Sqrt => format!("sqrt({x})"),
        Unary::Rsqrt => format!("rsqrt({x})"),
        Unary::Recip => format!("A(1) / {x}"),
        Unary::Tanh => format!("tanh({x})"),
        Unary::Erf => format!("erf({x})"),
        Unary::NormalCdf => format!("COARSE ? coarse_normal_cdf({x}) : normal_cdf({x})"),
        Unary::Bell => format!("COARSE ? coarse_bell({x}) : bell({x})"),
        Unary::Sin => format!("sin({x})"),
        Unary::Cos => format!("cos({x})"),
        Unary::Expm1 => format!("expm1({x})"),
        Unary::Log1p => format!("log1p({x})"),
        Unary::Floor => format!("floor_of({x})"),
        Unary::Ceil => format!("ceil_of({x})"),
        Unary::Round => format!("round_of({x})"),
        Unary::Sign => format!("A({x} > A(0)) - A({x} < A(0))"),
    }
}

fn binary(f: Binary, a: &str, b: &str) -> String {
    match f {
        Binary::Add => format!("sum_of({a}, {b})"),
        Binary::Sub => format!("difference_of({a}, {b})"),
        Binary::Mul => format!("product_of({a}, {b})"),
        Binary::Pow => format!("pow({a}, {b})"),
        Binary::Rem => format!("remainder_of({a}, {b})"),
        Binary::Div => format!("{a} / {b}"),
        Binary::Max => format!("Max::of({a}, {b})"),
        Binary::Min => format!("Min::of({a}, {b})"),
        Binary::Equal => format!("A({a} == {b})"),
        Binary::Less => format!("A({a} < {b})"),
        Binary::LessEqual => format!("A({a} <= {b})"),
    }
}

#[cfg(test)]
mod tests {
    use super::{reciprocal, walk};
    use crate::values::Layout;

    #[test]
    fn a_product_with_a_reciprocal_is_the_quotient() {
        let below = (1u64 << 31) - 1;
        let near = |v: u64| (v.saturating_sub(2)..=(v + 2).min(below)).filter(|&v| v > 0);
        let sizes =
            (1..2000).chain((0..31).flat_map(|b| near(1 << b))).chain(near(below)).chain([641, 6_700_417]);
        for size in sizes {
            let (m, s) = (reciprocal(size) >> 32, reciprocal(size) as u32);
            assert!(m < 1 << 32 && s < 64, "{size}");
            let last = below / size;
            // The quotient errs first, if at all, at the last index before a multiple.
            let multiples = (1..200).chain(last.saturating_sub(200)..=last).filter(|&k| k >= 1 && k <= last);
            for i in multiples.flat_map(|k| [k * size - 1, k * size]).chain([0, below]) {
                assert_eq!((i * m) >> s, i / size, "{i} / {size}");
            }
        }
    }

    #[test]
    fn axes_are_walked_in_the_order_of_the_result() -> Result<(), crate::values::Rule> {
        let whole = Layout::contiguous([5, 3, 4].into());
        // All turned alike: one run of memory.
        let turned = whole.permute(&[2, 0, 1])?;
        let alike = walk([turned, turned].into_iter(), 1)?;
        assert_eq!((alike[0].shape().dims(), alike[0].strides()), (&[60][..], &[1][..]));
        // A row for all, and a result in another order.
        let row = Layout::contiguous([4].into()).broadcast_to([5, 3, 4].into())?.permute(&[2, 0, 1])?;
        let mixed = walk([Layout::contiguous([4, 5, 3].into()), row, turned].into_iter(), 2)?;
        assert!(mixed.iter().all(|l| l.shape().dims() == [15, 4]));
        assert_eq!(mixed.iter().map(|l| l.strides().to_vec()).collect::<Vec<_>>(), [[1, 15], [0, 1], [4, 1]]);
        Ok(())
    }
}
