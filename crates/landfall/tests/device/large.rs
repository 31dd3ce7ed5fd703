//! Tensors of more than 2³¹ and 2³² elements: every byte of the result is compared with a formula.

use crate::gpu::gpu;
use landfall::ops::{Copy, Maximum, Op, Reduce, Reduction};
use landfall::{DType, Engine, Error, Shape, Tensor, TensorRef};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Elements that one thread of the host makes or compares.
const PART: usize = 1 << 20;

/// Byte `i` of the data. Indices that differ in any one bit, such as those that a 32-bit number confuses, rarely agree.
fn pattern(i: usize) -> u8 {
    ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Runs `work` on each part's number, on every core.
fn each_part(parts: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some(part) = Some(next.fetch_add(1, Relaxed)).filter(|&p| p < parts) {
            work(part);
        }
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(run);
        }
    });
}

/// Fails where a result is not what the formula says, with the first such element.
fn expect(what: &str, got: &[u8], want: impl Fn(usize) -> u8 + Sync) {
    let first = AtomicUsize::new(usize::MAX);
    each_part(got.len().div_ceil(PART), |part| {
        let from = part * PART;
        let bytes = &got[from..got.len().min(from + PART)];
        if let Some(at) = bytes.iter().enumerate().position(|(k, &b)| b != want(from + k)) {
            first.fetch_min(from + at, Relaxed);
        }
    });
    let at = first.into_inner();
    assert!(at == usize::MAX, "{what}: element {at} of {} is {}, not {}", got.len(), got[at], want(at));
}

/// `n` bytes by a formula.
fn filled(n: usize, of: &(dyn Fn(usize) -> u8 + Sync)) -> Vec<u8> {
    let mut bytes = vec![0; n];
    let size = n.div_ceil(std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|s| {
        for (part, bytes) in bytes.chunks_mut(size).enumerate() {
            s.spawn(move || bytes.iter_mut().enumerate().for_each(|(k, b)| *b = of(part * size + k)));
        }
    });
    bytes
}

/// Calls an op into the first elements of `out` and reads them; those behind must be as they were.
fn result(
    engine: &Engine,
    op: &dyn Op,
    inputs: &[TensorRef<'_>],
    out: &mut Tensor,
    shape: impl Into<Shape>,
) -> Result<Vec<u8>, Error> {
    let shape = shape.into();
    let specs: Vec<_> = inputs.iter().map(TensorRef::spec).collect();
    engine.reserve(engine.workspace(op, &specs)?)?;
    out.poison(0xA5)?;
    let target = out.view_mut().slice(0, 0, shape.elements())?.reshape(shape)?;
    engine.call(op, inputs, &mut [target])?;
    let mut bytes = out.read::<u8>()?;
    expect("memory behind the result", &bytes[shape.elements()..], |_| 0xA5);
    bytes.truncate(shape.elements());
    Ok(bytes)
}

/// Copies, a pointwise op and sums of `rows · cols` bytes, contiguous, from an odd address, and with axes exchanged.
fn check(engine: &Engine, rows: usize, cols: usize) -> Result<(), Error> {
    let n = rows * cols;
    let (mut x, mut out) = (engine.empty(DType::U8, [n])?, engine.empty(DType::U8, [n])?);
    let exchanged = |i: usize| pattern(i % rows * cols + i / rows);

    x.write::<u8>(&filled(n, &pattern))?;
    let table = x.view().reshape([rows, cols])?;
    let turned = table.permute(&[1, 0])?;
    let least = engine.tensor([1, 1], &[100u8])?;
    let least = |shape: [usize; 2]| least.view().broadcast_to(shape);
    let got = result(engine, &Copy, &[table], &mut out, [rows, cols])?;
    expect("copy", &got, pattern);
    let got = result(engine, &Copy, &[x.view().slice(0, 1, n - 1)?], &mut out, [n - 1])?;
    expect("copy from an odd address", &got, |i| pattern(i + 1));
    let got = result(engine, &Copy, &[turned], &mut out, [cols, rows])?;
    expect("copy with axes exchanged", &got, exchanged);
    let got = result(engine, &Maximum, &[table, least([rows, cols])?], &mut out, [rows, cols])?;
    expect("maximum", &got, |i| pattern(i).max(100));
    let got = result(engine, &Maximum, &[turned, least([cols, rows])?], &mut out, [cols, rows])?;
    expect("maximum with axes exchanged", &got, |i| exchanged(i).max(100));

    // So few ones that a byte holds their sum.
    let every = (n / 120) | 1;
    x.write::<u8>(&filled(n, &|i| u8::from(i % every == 5)))?;
    let table = x.view().reshape([rows, cols])?;
    let (mut per_row, mut per_col, mut all) = (vec![0; rows], vec![0; cols], 0);
    for i in (5..n).step_by(every) {
        per_row[i / cols] += 1;
        per_col[i % cols] += 1;
        all += 1;
    }
    // Sums of bytes are i64: read as such, and compared as the bytes that they are.
    let sum = |axes: &[usize], shape: &[usize]| -> Result<Vec<u8>, Error> {
        let op = Reduce::new(Reduction::Sum, axes);
        engine.reserve(engine.workspace(&op, &[table.spec()])?)?;
        let mut sums = engine.empty(DType::I64, Shape::new(shape).unwrap_or(Shape::SCALAR))?;
        engine.call(&op, &[table], &mut [sums.view_mut()])?;
        Ok(sums.read::<i64>()?.iter().map(|&sum| u8::try_from(sum).unwrap_or(u8::MAX)).collect())
    };
    expect("sums of rows", &sum(&[1], &[rows])?, |r| per_row[r]);
    expect("sums of columns", &sum(&[0], &[cols])?, |c| per_col[c]);
    expect("sum", &sum(&[0, 1], &[])?, |_| all);
    Ok(())
}

/// The formulas are right where the processor computes, on sizes of as odd a kind.
#[test]
fn the_formulas_hold() -> Result<(), Error> {
    check(&Engine::cpu_with_threads(1)?, 67, 71)
}

/// Rows and columns are primes next to powers of two, so that no axis is a whole number of units, tiles or blocks.
fn large(rows: usize, cols: usize) -> Result<(), Error> {
    if gpu()?.is_none() {
        return Ok(());
    }
    // An engine of its own gives the memory back when it goes.
    match check(&Engine::cuda(0)?, rows, cols) {
        Err(why @ Error::Memory { .. }) => {
            _ = writeln!(std::io::stderr(), "{rows} x {cols} bytes on a GPU are skipped: {why}");
            Ok(())
        }
        done => done,
    }
}

/// Beyond what a signed 32-bit number counts.
#[test]
fn cuda_beyond_2_to_the_31() -> Result<(), Error> {
    large(65_537, 32_771)
}

/// Beyond what any 32-bit number counts.
#[test]
fn cuda_beyond_2_to_the_32() -> Result<(), Error> {
    large(65_537, 65_539)
}
