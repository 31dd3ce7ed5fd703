//! Products beyond what the generated suite checks: precisions, and long inner axes.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::gpu;
use landfall::ops::{MatMul, Precision};
use landfall::tune::{Candidate, Verdict, tune};
use landfall::{DType, Engine, Error, Graph, Program, State, StateSpec, Value};
use std::sync::Arc;

type Sizes = (usize, usize, usize);

/// A number in [-1, 1), the same in every run.
fn value(k: usize, salt: u64) -> f32 {
    let mut z = (k as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(salt);
    z = (z ^ (z >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (z >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// The largest distance of an element of a product of f32 from the same sum in f64, in units of the sum of absolute
/// values.
fn error(engine: &Engine, precision: Precision, (m, n, k): Sizes) -> Result<f64, Error> {
    let op = MatMul { precision, ..MatMul::default() };
    let data = |count: usize, salt| (0..count).map(|i| value(i, salt)).collect::<Vec<_>>();
    let (a, b) = (data(m * k, 1), data(k * n, 2));
    let (mut lhs, mut rhs) = (engine.empty(DType::F32, [m, k])?, engine.empty(DType::F32, [k, n])?);
    let mut out = engine.empty(DType::F32, [m, n])?;
    lhs.write(&a)?;
    rhs.write(&b)?;
    engine.reserve(engine.workspace(&op, &[lhs.spec(), rhs.spec()])?)?;
    engine.call(&op, &[lhs.view(), rhs.view()], &mut [out.view_mut()])?;
    let out = out.read::<f32>()?;
    let mut worst = 0.0f64;
    for i in 0..m {
        for j in 0..n {
            let terms = || (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j]));
            let (sum, scale) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            worst = worst.max((f64::from(out[i * n + j]) - sum).abs() / scale);
        }
    }
    Ok(worst)
}

/// Measured on an H200: strict at most 1.7e-7, TF32, whose factors are rounded to 10 bits, 1.5e-4.
#[test]
fn on_cuda_strict_products_are_not_rounded_and_tf32_ones_are() -> Result<(), Error> {
    let Some(engine) = gpu()? else { return Ok(()) };
    for sizes in [(64, 64, 64), (96, 128, 5000), (16, 16, 40_000), (5376, 16, 128)] {
        let (strict, tf32) =
            (error(&engine, Precision::Strict, sizes)?, error(&engine, Precision::Tf32, sizes)?);
        println!("{sizes:?}: strict {strict:.1e}, tf32 {tf32:.1e}");
        assert!(strict < 1e-6, "{sizes:?}: {strict} of the sum of absolute values");
        assert!(tf32 < 1e-3, "{sizes:?}: {tf32} of the sum of absolute values");
        // A small result with a long inner axis is a kernel of ours, which rounds nothing.
        let rounds = sizes.2 > 4096 || tf32 > 4.0 * strict;
        assert!(rounds, "{sizes:?}: TF32 ({tf32}) rounds nothing (strict: {strict})");
    }
    Ok(())
}

/// A product of a batch whose factors lie by rows or by columns, in rows longer by `gap` elements.
#[derive(Debug, Clone, Copy)]
struct Lies {
    batch: usize,
    sizes: Sizes,
    /// Whether the inner axis of the left and of the right factor is the contiguous one.
    along: [bool; 2],
    gaps: [usize; 2],
    added: bool,
}

impl Lies {
    /// Elements of a factor of `outer` x `inner`: down and across, as they lie, without and with the gap.
    fn held(&self, factor: usize, outer: usize, inner: usize) -> (usize, usize, usize) {
        let (down, across) = if self.along[factor] { (outer, inner) } else { (inner, outer) };
        (down, across, across + self.gaps[factor])
    }

    fn graph(&self) -> Result<Graph, Error> {
        let ((m, n, k), g) = (self.sizes, Graph::new(&Arc::new(StateSpec::new())));
        // By rows of its outer axis, however it lies.
        let factor = |name: &str, i: usize, outer: usize| -> Result<Value, Error> {
            let (down, across, pitch) = self.held(i, outer, k);
            let whole = g.input(name, DType::F32, [self.batch, down, pitch]);
            let part = g.slice(whole, 2, 0, across)?;
            if self.along[i] { Ok(part) } else { g.transpose(part) }
        };
        let (lhs, rhs) = (factor("lhs", 0, m)?, factor("rhs", 1, n)?);
        let mut inputs = vec![lhs, g.transpose(rhs)?];
        if self.added {
            inputs.push(g.input("addend", DType::F32, [self.batch, m, n]));
        }
        let op = MatMul { precision: Precision::Tf32, ..MatMul::default() };
        g.output("out", g.op1(op, &inputs)?);
        Ok(g)
    }

    /// A number that TF32 holds.
    fn value(salt: u64, i: usize) -> f32 {
        (value(i, salt) * 512.0).round() / 512.0
    }

    fn write(&self, program: &mut Program) -> Result<(), Error> {
        let (m, n, k) = self.sizes;
        for (i, (name, outer)) in [("lhs", m), ("rhs", n)].into_iter().enumerate() {
            let (down, across, pitch) = self.held(i, outer, k);
            // What lies in the gaps must not be used.
            let at = |e: usize| if e % pitch < across { Self::value(i as u64, e) } else { f32::NAN };
            program.write(name, &(0..self.batch * down * pitch).map(at).collect::<Vec<_>>())?;
        }
        if self.added {
            let addend: Vec<f32> = (0..self.batch * m * n).map(|e| Self::value(2, e)).collect();
            program.write("addend", &addend)?;
        }
        Ok(())
    }

    /// Each element's sum in f64, and the sum of absolute values.
    fn sums(&self) -> Vec<(f64, f64)> {
        let (m, n, k) = self.sizes;
        let factor = |i: usize, outers: usize| -> Vec<f64> {
            let (down, _, pitch) = self.held(i, outers, k);
            let at = |e: usize| {
                let (b, o, p) = (e / (outers * k), e / k % outers, e % k);
                let (row, column) = if self.along[i] { (o, p) } else { (p, o) };
                f64::from(Self::value(i as u64, (b * down + row) * pitch + column))
            };
            (0..self.batch * outers * k).map(at).collect()
        };
        let (lhs, rhs) = (factor(0, m), factor(1, n));
        let sums = (0..self.batch * m * n).map(|e| {
            let (b, i, j) = (e / (m * n), e / n % m, e % n);
            let rows = (&lhs[(b * m + i) * k..][..k], &rhs[(b * n + j) * k..][..k]);
            let added = if self.added { f64::from(Self::value(2, e)) } else { 0.0 };
            let terms = rows.0.iter().zip(rows.1).map(|(x, y)| x * y);
            terms.fold((added, added.abs()), |(sum, scale), t| (sum + t, scale + t.abs()))
        });
        sums.collect()
    }
}

/// The largest distance from the sums, in units of the sum of absolute values.
fn furthest(got: &[f32], sums: &[(f64, f64)]) -> f64 {
    got.iter().zip(sums).fold(0.0, |worst, (&got, (sum, scale))| {
        let off = (f64::from(got) - sum).abs() / scale.max(f64::MIN_POSITIVE);
        // A NaN is no number that a maximum would keep.
        if off.is_nan() { f64::INFINITY } else { worst.max(off) }
    })
}

/// Each kernel that the tuner may choose for a product in TF32, of factors that TF32 holds: what is off is the sum's
/// rounding, where a rounded factor would be off by 2^-11. The tuner rejects none of them for rounding factors in another
/// way.
#[test]
fn on_cuda_every_kernel_of_a_product_in_tf32_sums_in_f32() -> Result<(), Error> {
    let Some(engine) = gpu()? else { return Ok(()) };
    let all: &[(usize, Sizes)] = &[
        (1, (64, 64, 64)),
        (3, (129, 260, 37)),
        (12, (193, 132, 97)),
        (1, (200, 136, 1500)),
        (1, (5, 7, 400)),
    ];
    let (mut cases, mut tried, mut worst) = (0, 0, 0.0f64);
    for &(batch, sizes) in all {
        for (along, added) in [
            ([true, true], false),
            ([true, false], false),
            ([false, true], true),
            ([false, false], false),
            ([false, false], true),
        ] {
            let (m, n, k) = sizes;
            let gap = |i: usize, outer: usize| {
                let across = if along[i] { k } else { outer };
                across.next_multiple_of(4) - across
            };
            let lies = Lies { batch, sizes, along, gaps: [gap(0, m), gap(1, n)], added };
            let (graph, sums) = (lies.graph()?, lies.sums());
            let mut state = State::new(&engine, graph.state_spec())?;
            let plain = Program::compile(&engine, &state, "plain", &graph)?;
            let tuned = tune(&engine, &plain.tuning_cases(), None, false)?;
            for Candidate { kernel, verdict } in tuned.rows.iter().flat_map(|r| &r.candidates) {
                let mut choices = tuned.choices.clone();
                choices.kernels.insert(tuned.rows[0].instruction.clone(), kernel.clone());
                let pinned = Program::compile(&engine.with_choices(choices), &state, "pinned", &graph);
                // The library may have fewer algorithms.
                let mut pinned = match pinned {
                    Err(e) if e.to_string().contains("proposes no algorithm") => continue,
                    compiled => compiled?,
                };
                assert!(!matches!(verdict, Verdict::Rejected(_)), "{lies:?}, {kernel}: {verdict:?}");
                lies.write(&mut pinned)?;
                pinned.run(&mut state)?;
                let error = furthest(&pinned.read::<f32>("out")?, &sums);
                assert!(error < 2e-6, "{lies:?}, {kernel} ({verdict:?}): {error:.1e}");
                (tried, worst) = (tried + 1, worst.max(error));
            }
            cases += 1;
        }
    }
    println!("{tried} kernels of {cases} products: at most {worst:.1e}");
    assert!(tried > 3 * cases, "{tried} kernels of {cases} products: the tuner had no choice");
    Ok(())
}

#[test]
fn tf32_is_for_cuda() -> Result<(), Error> {
    let told = error(&Engine::cpu_with_threads(1)?, Precision::Tf32, (2, 2, 2)).map_err(|e| e.to_string());
    let said = told.as_ref().is_err_and(|t| t.contains("no kernel of cpu takes"));
    assert!(said, "{told:?}");
    Ok(())
}
