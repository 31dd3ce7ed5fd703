//! Speed of the CPU matrix product on one thread, in GFLOP/s, for the shapes that training steps are made of.
//!
//! `cargo run --release -p landfall --example gemm_speed`; `LANDFALL_ISA=avx2` (or `baseline`) narrows the vectors.
//! Each figure is the best of a quarter of a second.

use landfall::Element;
use landfall::cpu::gemm::{Beta, Gemm, GemmError, MatMut, MatRef, Rhs, workspace_len};
use landfall::cpu::isa::{Isa, Real};
use landfall::half::{bf16, f16};
use std::time::{Duration, Instant};

/// (m, n, k) and whether A and B are given transposed.
const SHAPES: [(usize, usize, usize, bool, bool); 20] = [
    (512, 512, 512, false, false),
    (512, 512, 512, true, false),
    (512, 512, 512, false, true),
    (37632, 16, 16, false, false),
    (37632, 128, 16, false, false),
    (37632, 128, 16, false, true),
    (37632, 16, 128, false, false),
    (37632, 48, 16, false, false),
    (16, 16, 37632, true, false),
    (128, 16, 37632, true, false),
    (16, 128, 37632, true, false),
    (896, 96, 672, false, false),
    (896, 672, 96, false, false),
    (96, 672, 896, true, false),
    (6400, 64, 64, false, false),
    (6400, 256, 64, false, false),
    (6400, 64, 256, false, false),
    (64, 64, 6400, true, false),
    (1, 512, 512, false, false),
    (100, 30, 70, false, false),
];

fn main() -> Result<(), GemmError> {
    println!("instruction set {}; GFLOP/s", Isa::detect().name());
    println!("{:>6} {:>5} {:>6}  A B {:>8} {:>8} {:>8} {:>8}", "m", "n", "k", "f32", "f64", "bf16", "f16");
    for shape in SHAPES {
        let (m, n, k, a_transposed, b_transposed) = shape;
        let mark = |transposed| if transposed { 'T' } else { 'N' };
        let speeds =
            [speed::<f32>(shape)?, speed::<f64>(shape)?, speed::<bf16>(shape)?, speed::<f16>(shape)?];
        print!("{m:>6} {n:>5} {k:>6}  {} {}", mark(a_transposed), mark(b_transposed));
        speeds.iter().for_each(|speed| print!(" {speed:>8.1}"));
        println!();
    }
    Ok(())
}

fn speed<T: Element<Acc: Real>>(
    (m, n, k, a_transposed, b_transposed): (usize, usize, usize, bool, bool),
) -> Result<f64, GemmError> {
    let values = |len, period| (0..len).map(|i| T::from_f64((i % period) as f64 - 8.0)).collect::<Vec<_>>();
    let (a, b, mut c) = (values(m * k, 17), values(k * n, 13), values(m * n, 1));
    let mut workspace = vec![T::Acc::default(); workspace_len(m, n, k)];
    let gemm = Gemm {
        alpha: T::Acc::ONE,
        a: MatRef::new(&a, 0, (m, k), if a_transposed { (1, m) } else { (k, 1) })?,
        b: Rhs::View(MatRef::new(&b, 0, (k, n), if b_transposed { (1, k) } else { (n, 1) })?),
        beta: Beta::Zero,
        bias: None,
    };
    let mut c = MatMut::new(&mut c, 0, (m, n), (n, 1))?;
    gemm.run(&mut c, &mut workspace)?;
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    while begin.elapsed() < Duration::from_millis(250) {
        let start = Instant::now();
        gemm.run(&mut c, &mut workspace)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(2.0 * (m * n * k) as f64 / best / 1e9)
}
