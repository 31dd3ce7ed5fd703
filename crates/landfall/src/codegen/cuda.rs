//! The CUDA kernel for every pointwise op: the expression as a function in CUDA C++, inside `pointwise.cu`.

use super::expression::{Binary, Expression, Reg, Step, Unary};
use crate::DType;
use crate::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::device::Operand;
use crate::error::Rule;
use crate::layout::{Layout, collapse};
use arrayvec::ArrayVec;
use std::fmt::Write;

/// The most arguments of a pointwise kernel.
const MAX_ARGS: usize = 8;
/// Threads of a block.
const BLOCK: u32 = 256;

macro_rules! source {
    ($($x:literal $T:literal $stride:literal),*) => {
        Source {
            name: "pointwise",
            text: include_str!("pointwise.cu"),
            entries: &[
                Entry {
                    name: "contiguous",
                    block: BLOCK,
                    params: &[
                        $(Param::input($x, $T),)*
                        Param::output("out", "TO"),
                        Param::u64("n"),
                        Param::u32("uniform"),
                    ],
                },
                Entry {
                    name: "strided",
                    block: BLOCK,
                    params: &[
                        $(Param::input($x, $T),)*
                        Param::output("out", "TO"),
                        Param::u64("n"),
                        Param::u32("rank"),
                        Param::dims("shape"),
                        Param::dims("stride_out"),
                        $(Param::dims($stride),)*
                    ],
                },
            ],
        }
    };
}

/// One source for each number of arguments.
static SOURCES: [Source; MAX_ARGS + 1] = [
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

/// Launches the kernel of an expression over a call's operands.
///
/// Where all operands lie gapless and aligned, a thread moves 16 bytes of the widest of them at once; an operand that
/// is one element for all is read as such. Every other layout takes the strided kernel, element by element.
///
/// # Errors
/// A rule that only a wrong kernel table can break; a device fault.
pub(crate) fn run(expression: &Expression, call: &mut Call<'_>) -> Result<(), Failure> {
    let (inputs, out) = (call.inputs(), call.output(0)?);
    let n = inputs.len();
    let Some(source) = SOURCES.get(n) else {
        return Err(Rule::Arity { expected: MAX_ARGS, got: n }.into());
    };
    let elements = out.layout().shape().elements();
    if elements == 0 {
        return Ok(());
    }
    let operands = || inputs.iter().chain([out]);
    // As on the processor: f64 where an f64 or a 32-bit integer or wider is involved.
    let wide = operands().any(|o| matches!(o.dtype(), DType::F64 | DType::I64 | DType::I32));
    let widest = operands().map(|o| o.dtype().size()).max().unwrap_or(1);
    let vector = 16 / widest;
    let mut module = Module::evaluating(source, expression);
    for (name, o) in TYPES.iter().zip(inputs) {
        module.bind(name, o.dtype());
    }
    module.bind("TO", out.dtype());
    module.bind("A", if wide { DType::F64 } else { DType::F32 });
    module.set("VECTOR", vector as u64);

    let gapless = |o: &Operand| {
        o.layout().is_contiguous() && o.address().is_multiple_of((vector * o.dtype().size()) as u64)
    };
    let one = |l: &Layout| l.shape().dims().iter().zip(l.strides()).all(|(&d, &s)| d == 1 || s == 0);
    let mut uniform = 0;
    let mut contiguous = gapless(out);
    for (i, o) in inputs.iter().enumerate() {
        // A single element is both.
        if !gapless(o) {
            contiguous &= one(o.layout());
            uniform |= 1u32 << i;
        }
    }
    let mut args = ArrayVec::<Arg<'_>, { 2 * MAX_ARGS + 5 }>::new();
    inputs.iter().for_each(|o| args.push(Arg::Input(o)));
    args.push(Arg::Output(out));
    args.push(Arg::U64(elements as u64));
    if contiguous {
        args.push(Arg::U32(uniform));
        let geometry = Geometry::linear(elements.div_ceil(vector), BLOCK)?;
        return call.launch(&module, "contiguous", geometry, &args);
    }
    let mut layouts: ArrayVec<Layout, { MAX_ARGS + 1 }> = ArrayVec::new();
    layouts.push(*out.layout());
    layouts.extend(inputs.iter().map(|o| *o.layout()));
    collapse(&mut layouts);
    args.push(Arg::U32(layouts[0].shape().rank() as u32));
    args.push(Arg::dims(layouts[0].shape().dims()));
    layouts.iter().for_each(|l| args.push(Arg::dims(l.strides())));
    call.launch(&module, "strided", Geometry::linear(elements, BLOCK)?, &args)
}

/// The number of arguments that an expression reads.
fn arity(e: &Expression) -> usize {
    let arg = |s: &Step| match *s {
        Step::Arg(i) => usize::from(i) + 1,
        Step::Const(_) | Step::Unary(..) | Step::Binary(..) | Step::Select(..) => 0,
    };
    e.steps().iter().map(arg).max().unwrap_or(0)
}

/// The expression as the function `evaluate` of its arguments, each of the type `A`, with the macros by which
/// `pointwise.cu` goes through them.
pub(crate) fn function(e: &Expression) -> String {
    let n = arity(e);
    let each = |f: &dyn Fn(usize) -> String, between: &str| (0..n).map(f).collect::<Vec<_>>().join(between);
    let mut text = format!("#define EACH_ARG(X) {}\n", each(&|i| format!("X({i})"), " "));
    _ = writeln!(text, "#define EVALUATE(X) evaluate({})", each(&|i| format!("X({i})"), ", "));
    _ = writeln!(text, "DEVICE A evaluate({}) {{", each(&|i| format!("A x{i}"), ", "));
    for (r, step) in e.steps().iter().enumerate() {
        _ = writeln!(text, "    const A r{r} = {};", code(*step));
    }
    _ = writeln!(text, "    return r{};\n}}", e.steps().len().saturating_sub(1));
    text
}

/// The expression in one line, for labels; a long one is cut off.
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
    }
}

/// A constant that reads back as the same number.
fn constant(c: f64) -> String {
    if c.is_finite() { format!("A({c:e})") } else { format!("A(__longlong_as_double({:#x}ll))", c.to_bits()) }
}

// The functions of CUDA's mathematics library: overloaded for both types of arithmetic, accurate to a few units in the
// last place over the whole range (no fast-math).
fn unary(f: Unary, x: &str) -> String {
    match f {
        Unary::Neg => format!("-{x}"),
        Unary::Abs => format!("fabs({x})"),
        Unary::Exp => format!("exp({x})"),
        Unary::Ln => format!("log({x})"),
        Unary::Sqrt => format!("sqrt({x})"),
        Unary::Rsqrt => format!("rsqrt({x})"),
        Unary::Recip => format!("A(1) / {x}"),
        Unary::Tanh => format!("tanh({x})"),
        Unary::Erf => format!("erf({x})"),
        Unary::NormalCdf => format!("normcdf({x})"),
        Unary::Sin => format!("sin({x})"),
        Unary::Cos => format!("cos({x})"),
        Unary::Sign => format!("A({x} > A(0)) - A({x} < A(0))"),
    }
}

fn binary(f: Binary, a: &str, b: &str) -> String {
    match f {
        Binary::Add => format!("{a} + {b}"),
        Binary::Sub => format!("{a} - {b}"),
        Binary::Mul => format!("{a} * {b}"),
        Binary::Div => format!("{a} / {b}"),
        Binary::Max => format!("Max::of({a}, {b})"),
        Binary::Min => format!("Min::of({a}, {b})"),
        Binary::Equal => format!("A({a} == {b})"),
        Binary::Less => format!("A({a} < {b})"),
        Binary::LessEqual => format!("A({a} <= {b})"),
    }
}
