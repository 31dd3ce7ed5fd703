use super::*;
use crate::kernel::cpu::pack::k_blocks;
use crate::rng::Rng;
use half::{bf16, f16};

/// Largest error allowed, in units of the accumulation type's epsilon times the sum of the magnitudes of the terms,
/// on top of one rounding to the type of the result. The worst measured over these tests is 2.9, where alpha, a
/// previous C and a bias round after a short sum; long sums stay below 1, because their errors cancel.
const TOLERANCE: f64 = 6.0;

/// How a test matrix lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lay {
    Rows,
    PaddedRows,
    Cols,
    Gaps,
}

const LAYS: [Lay; 4] = [Lay::Rows, Lay::PaddedRows, Lay::Cols, Lay::Gaps];

impl Lay {
    fn strides(self, rows: usize, cols: usize) -> (usize, usize) {
        match self {
            Self::Rows => (cols, 1),
            Self::PaddedRows => (cols + 3, 1),
            Self::Cols => (1, rows),
            Self::Gaps => (2 * cols + 5, 2),
        }
    }

    /// Elements that surely hold the matrix and guards of 7 on both sides.
    fn room(self, rows: usize, cols: usize) -> usize {
        let (row, col) = self.strides(rows, cols);
        rows * row + cols * col + 14
    }
}

const OFFSET: usize = 7;

/// What a product is added to: nothing, C, or another matrix that lies like B.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Start {
    Zero,
    One,
    Matrix,
}

struct Case {
    isa: Isa,
    shape: (usize, usize, usize),
    lays: [Lay; 3],
    alpha: f64,
    beta: Start,
    bias: bool,
    packed: bool,
}

fn values<T: Element>(rng: &mut Rng, len: usize) -> Vec<T> {
    (0..len).map(|_| T::from_f64(rng.uniform() * 2.0 - 1.0)).collect()
}

/// Runs a case with everything poisoned and compares it with loops in `f64`; returns the worst error in the units of
/// [`TOLERANCE`].
fn check<T, R>(case: &Case, rng: &mut Rng) -> f64
where
    T: Element<Acc: Real>,
    R: Element<Acc = T::Acc>,
{
    let ((m, n, k), [la, lb, lc]) = (case.shape, case.lays);
    let a_data = values::<T>(rng, la.room(m, k));
    let b_data = values::<T>(rng, lb.room(k, n));
    let bias = values::<R>(rng, n);
    let before = match case.beta {
        Start::Zero | Start::Matrix => vec![R::from_f64(f64::NAN); lc.room(m, n)],
        Start::One => values::<R>(rng, lc.room(m, n)),
    };
    let mut after = before.clone();
    let other = values::<R>(rng, lb.room(m, n));
    let other = MatRef::new(&other, OFFSET, (m, n), lb.strides(m, n)).expect("addend");
    let a = MatRef::new(&a_data, OFFSET, (m, k), la.strides(m, k)).expect("A");
    let b = MatRef::new(&b_data, OFFSET, (k, n), lb.strides(k, n)).expect("B");
    let mut buffer = vec![T::Acc::from_f64(f64::NAN); PackedB::<T::Acc>::buffer_len(k, n)];
    let rhs = match case.packed {
        true => Rhs::Packed(PackedB::new_on(case.isa, b, &mut buffer).expect("packed")),
        false => Rhs::View(b),
    };
    let mut workspace = vec![T::Acc::from_f64(f64::NAN); workspace_len(m, n, k)];
    let gemm = Gemm {
        alpha: T::Acc::from_f64(case.alpha),
        a,
        b: rhs,
        beta: match case.beta {
            Start::Zero => Beta::Zero,
            Start::One => Beta::One,
            Start::Matrix => Beta::Matrix(other),
        },
        bias: case.bias.then_some(&bias[..]),
    };
    let (row_stride, col_stride) = lc.strides(m, n);
    let mut c = MatMut::new(&mut after, OFFSET, (m, n), (row_stride, col_stride)).expect("C");
    gemm.run_on(case.isa, &mut c, &mut workspace).expect("product");

    let mut guard = vec![true; after.len()];
    let mut worst = 0.0_f64;
    for i in 0..m {
        for j in 0..n {
            let at = OFFSET + i * row_stride + j * col_stride;
            guard[at] = false;
            let mut terms: Vec<f64> = (0..k)
                .map(|p| {
                    let a = a_data[OFFSET + i * a.row_stride + p * a.col_stride].to_f64();
                    case.alpha * a * b_data[OFFSET + p * b.row_stride + j * b.col_stride].to_f64()
                })
                .collect();
            match case.beta {
                Start::Zero => {}
                Start::One => terms.push(before[at].to_f64()),
                Start::Matrix => {
                    terms.push(other.data[i * other.row_stride + j * other.col_stride].to_f64());
                }
            }
            terms.extend(case.bias.then(|| bias[j].to_f64()));
            let (expected, magnitude) = terms.iter().fold((0.0, 0.0), |(s, t), x| (s + x, t + x.abs()));
            // Half a step of the result's type: relative, but for the subnormal f16.
            let step = if R::DTYPE == crate::values::DType::F16 { 2.0_f64.powi(-24) } else { 0.0 };
            let rounding = (R::DTYPE.epsilon() * expected.abs()).max(step) / 2.0;
            let error = (after[at].to_f64() - expected).abs() - rounding;
            let unit = T::DTYPE.accumulate().epsilon() * magnitude;
            let lay = case.lays;
            assert!(
                error <= TOLERANCE * unit,
                "{} {} {:?} {lay:?} ({i}, {j}): {:?}, expected {expected}",
                T::DTYPE,
                case.isa.name(),
                case.shape,
                after[at]
            );
            worst = worst.max(if unit > 0.0 { error / unit } else { 0.0 });
        }
    }
    for (at, _) in guard.iter().enumerate().filter(|(_, guard)| **guard) {
        assert_eq!(bytemuck::bytes_of(&after[at]), bytemuck::bytes_of(&before[at]), "guard {at}");
    }
    worst
}

/// Every shape on every instruction set, with the other choices drawn at random.
fn sweep<T, R>(ms: &[usize], ns: &[usize], ks: &[usize])
where
    T: Element<Acc: Real>,
    R: Element<Acc = T::Acc>,
{
    let mut rng = Rng::new(1, 0);
    let mut worst = 0.0_f64;
    for isa in Isa::available() {
        for &m in ms {
            for &n in ns {
                for &k in ks {
                    let case = Case {
                        isa,
                        shape: (m, n, k),
                        lays: std::array::from_fn(|_| LAYS[rng.range(0..4)]),
                        alpha: [1.0, -0.75][rng.range(0..2)],
                        beta: [Start::Zero, Start::One, Start::Matrix][rng.range(0..3)],
                        bias: rng.range(0..2) == 1,
                        packed: rng.range(0..3) == 0,
                    };
                    worst = worst.max(check::<T, R>(&case, &mut rng));
                }
            }
        }
    }
    println!("{} to {}: worst error {worst:.2}", T::DTYPE, R::DTYPE);
}

/// Tile heights 4, 6, 8, 12 and 16 and what is left of them; register widths 2, 4, 8 and 16, alone and in pairs.
const EDGES_M: [usize; 13] = [0, 1, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 29];
const EDGES_N: [usize; 16] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 49];

#[test]
fn edges_of_tiles_f32() {
    sweep::<f32, f32>(&EDGES_M, &EDGES_N, &[0, 1, 2, 16, 33]);
}

#[test]
fn edges_of_tiles_f64() {
    sweep::<f64, f64>(&EDGES_M, &EDGES_N, &[0, 1, 2, 16, 33]);
}

#[test]
fn edges_of_tiles_16_bit() {
    sweep::<bf16, bf16>(&EDGES_M, &EDGES_N, &[0, 1, 17]);
    sweep::<f16, f16>(&EDGES_M, &EDGES_N, &[0, 1, 17]);
    sweep::<bf16, f32>(&EDGES_M, &EDGES_N, &[0, 1, 17]);
}

#[test]
fn edges_of_blocks() {
    sweep::<f32, f32>(&[47, 49, 239, 240, 241, 490], &[5, 97], &[64, 65, 255, 257]);
    sweep::<f64, f64>(&[1, 47, 241], &[5, 100], &[256, 513]);
    sweep::<bf16, bf16>(&[1, 49, 241], &[16, 97], &[64, 257, 600]);
    sweep::<f16, f16>(&[3, 241], &[33], &[300]);
    sweep::<f16, f32>(&[3, 241], &[33], &[300]);
    sweep::<f32, f32>(&[16], &[16, 40], &[3000]);
}

#[test]
fn every_layout_of_every_operand() {
    let mut rng = Rng::new(2, 0);
    for isa in Isa::available() {
        for index in 0..384 {
            let lays = [LAYS[index % 4], LAYS[index / 4 % 4], LAYS[index / 16 % 4]];
            for shape in [(14, 35, 18), (50, 100, 130)] {
                let (beta, bias) = ([Start::Zero, Start::One, Start::Matrix][index / 64 % 3], index >= 192);
                let case = Case { isa, shape, lays, alpha: 1.0, beta, bias, packed: false };
                check::<f32, f32>(&case, &mut rng);
                if shape.0 < 20 {
                    check::<f64, f64>(&case, &mut rng);
                    check::<bf16, bf16>(&case, &mut rng);
                    check::<f16, f16>(&case, &mut rng);
                }
            }
        }
    }
}

/// A product of fixed operands, with rows split as asked.
fn product(isa: Isa, (m, n, k): (usize, usize, usize), lay: Lay, splits: &[usize], packed: bool) -> Vec<f32> {
    let mut rng = Rng::new(3, 0);
    let (dense_a, dense_b) = (values::<f32>(&mut rng, m * k), values::<f32>(&mut rng, k * n));
    let lie = |dense: &[f32], rows: usize, cols: usize| {
        let (row, col) = lay.strides(rows, cols);
        let mut data = vec![f32::NAN; lay.room(rows, cols)];
        (0..rows * cols).for_each(|i| data[OFFSET + i / cols * row + i % cols * col] = dense[i]);
        data
    };
    let (a_data, b_data) = (lie(&dense_a, m, k), lie(&dense_b, k, n));
    let a = MatRef::new(&a_data, OFFSET, (m, k), lay.strides(m, k)).expect("A");
    let b = MatRef::new(&b_data, OFFSET, (k, n), lay.strides(k, n)).expect("B");
    let mut buffer = vec![f32::NAN; PackedB::<f32>::buffer_len(k, n)];
    let rhs = match packed {
        true => Rhs::Packed(PackedB::new_on(isa, b, &mut buffer).expect("packed")),
        false => Rhs::View(b),
    };
    let mut workspace = vec![f32::NAN; workspace_len(m, n, k)];
    let mut c = vec![f32::NAN; m * n];
    let mut rest = MatMut::new(&mut c, 0, (m, n), (n, 1)).expect("C");
    let mut row = 0;
    for &end in splits.iter().chain(&[m]) {
        let (mut rows, tail) = rest.split_at_row(end - row).expect("split");
        rest = tail;
        let a = a.block((row, 0), (end - row, k)).expect("rows");
        let gemm = Gemm::<f32, f32> { alpha: 1.0, a, b: rhs, beta: Beta::Zero, bias: None };
        gemm.run_on(isa, &mut rows, &mut workspace).expect("product");
        row = end;
    }
    c
}

#[test]
fn bytes_do_not_depend_on_row_blocks_layout_or_packing() {
    for isa in Isa::available() {
        for shape in [(300, 48, 16), (70, 37, 700), (500, 130, 200), (16, 16, 5000)] {
            let whole = product(isa, shape, Lay::Rows, &[], false);
            assert!(whole.iter().all(|x| x.is_finite()));
            for splits in [&[1, 2, 15][..], &[7], &[5, 5, 13, 14]] {
                assert!(whole == product(isa, shape, Lay::Rows, splits, false), "{shape:?} {splits:?}");
                assert!(whole == product(isa, shape, Lay::Rows, splits, true), "{shape:?} {splits:?} packed");
            }
            for lay in LAYS {
                assert!(whole == product(isa, shape, lay, &[3], false), "{shape:?} {lay:?}");
            }
        }
    }
}

#[test]
fn sets_with_a_fused_multiply_add_agree_to_the_byte() {
    let mut fused = Isa::available().filter(|&isa| isa > Isa::Baseline);
    if let Some(first) = fused.next() {
        let expected = product(first, (65, 70, 300), Lay::Rows, &[], false);
        assert!(fused.all(|isa| product(isa, (65, 70, 300), Lay::Rows, &[], false) == expected));
    }
}

#[test]
fn a_long_sum_is_not_one_chain() {
    // One chain of 37632 terms of 0.1 in f32 ends 4e-4 off (relative); blocks of 256 stay far below.
    let k = 37_632;
    let (a, b, mut c) = (vec![1.0_f32; k], vec![0.1_f32; k], [f32::NAN]);
    let mut workspace = vec![f32::NAN; workspace_len(1, 1, k)];
    let a = MatRef::new(&a, 0, (1, k), (k, 1)).expect("A");
    let b = Rhs::View(MatRef::new(&b, 0, (k, 1), (1, 1)).expect("B"));
    let mut c_mat = MatMut::new(&mut c, 0, (1, 1), (1, 1)).expect("C");
    let gemm = Gemm::<f32, f32> { alpha: 1.0, a, b, beta: Beta::Zero, bias: None };
    gemm.run(&mut c_mat, &mut workspace).expect("product");
    let exact = f64::from(0.1_f32) * k as f64;
    assert!((f64::from(c[0]) / exact - 1.0).abs() < 1e-5, "{} against {exact}", c[0]);
    assert!(k_blocks(k).all(|(_, len)| len <= BLOCK_K));
    assert_eq!(k_blocks(k).map(|(_, len)| len).sum::<usize>(), k);
}

#[test]
fn a_repeated_row_and_column_are_read_in_place() {
    let (a, b, mut c) = ([1.0_f32, 2.0, 3.0], [10.0_f32, 20.0], [f32::NAN; 10]);
    let a = MatRef::new(&a, 0, (5, 3), (0, 1)).expect("A");
    let b = Rhs::View(MatRef::new(&b, 0, (3, 2), (0, 1)).expect("B"));
    let mut workspace = vec![f32::NAN; workspace_len(5, 2, 3)];
    let mut c_mat = MatMut::new(&mut c, 0, (5, 2), (2, 1)).expect("C");
    let gemm = Gemm::<f32, f32> { alpha: 1.0, a, b, beta: Beta::Zero, bias: Some(&[0.5, 1.0]) };
    gemm.run(&mut c_mat, &mut workspace).expect("product");
    assert_eq!(c, [60.5, 121.0, 60.5, 121.0, 60.5, 121.0, 60.5, 121.0, 60.5, 121.0]);
}

#[test]
fn a_bias_is_one_addition_to_the_finished_product() {
    let (m, n, k) = (13, 40, 600);
    let mut rng = Rng::new(4, 0);
    let (a, b, bias) = (values(&mut rng, m * k), values(&mut rng, k * n), values::<f32>(&mut rng, n));
    let run = |bias: Option<&[f32]>| {
        let (mut c, mut workspace) = (vec![f32::NAN; m * n], vec![f32::NAN; workspace_len(m, n, k)]);
        let a = MatRef::<f32>::new(&a, 0, (m, k), (k, 1)).expect("A");
        let b = Rhs::View(MatRef::new(&b, 0, (k, n), (n, 1)).expect("B"));
        let mut c_mat = MatMut::new(&mut c, 0, (m, n), (n, 1)).expect("C");
        let gemm = Gemm { alpha: 1.5, a, b, beta: Beta::Zero, bias };
        gemm.run(&mut c_mat, &mut workspace).expect("product");
        c
    };
    let plain = run(None);
    assert!(
        run(Some(&bias)).iter().zip(&plain).enumerate().all(|(i, (&with, &sum))| with == sum + bias[i % n])
    );
}

#[test]
fn what_does_not_fit_is_refused_with_its_numbers() {
    let data = [0.0_f32; 12];
    let mut out = [7.0_f32; 12];
    assert!(MatRef::new(&data, 0, (3, 4), (4, 1)).is_ok());
    assert!(MatRef::new(&data, 99, (0, 4), (4, 1)).is_ok());
    let outside = MatRef::new(&data, 1, (3, 4), (4, 1)).expect_err("one too far");
    let text = "a 3x4 matrix with strides (4, 1) at offset 1 must lie within 12 elements";
    assert_eq!(outside.to_string(), text);
    assert!(MatRef::new(&data, 0, (3, 4), (usize::MAX, 1)).is_err());
    assert!(matches!(MatMut::new(&mut out, 0, (3, 4), (0, 1)), Err(GemmError::Overlap { .. })));
    assert!(matches!(MatMut::new(&mut out, 0, (3, 4), (3, 1)), Err(GemmError::Overlap { .. })));
    let columns = MatMut::new(&mut out, 0, (3, 4), (1, 3)).expect("column major");
    assert!(matches!(columns.split_at_row(1), Err(GemmError::Overlap { .. })));

    let view = |rows, cols| MatRef::new(&data, 0, (rows, cols), (cols, 1)).expect("view");
    assert!(matches!(view(3, 4).block((1, 2), (2, 3)), Err(GemmError::NoSuchBlock { .. })));
    let gemm = Gemm::<f32, f32> {
        alpha: 1.0,
        a: view(3, 2),
        b: Rhs::View(view(2, 4)),
        beta: Beta::Zero,
        bias: None,
    };
    let mut c = MatMut::new(&mut out, 0, (3, 4), (4, 1)).expect("C");
    let need = workspace_len(3, 4, 2);
    let short = gemm.run(&mut c, &mut vec![0.0; need - 1]);
    assert_eq!(short, Err(GemmError::Workspace { have: need - 1, need }));
    let wrong = Gemm { b: Rhs::View(view(3, 4)), ..gemm }.run(&mut c, &mut vec![0.0; need]);
    assert_eq!(wrong, Err(GemmError::Shape { a: (3, 2), b: (3, 4), c: (3, 4), bias: None }));
    let wrong = Gemm { bias: Some(&data[..3]), ..gemm }.run(&mut c, &mut vec![0.0; need]);
    assert_eq!(wrong, Err(GemmError::Shape { a: (3, 2), b: (2, 4), c: (3, 4), bias: Some(3) }));
    let wrong = Gemm { beta: Beta::Matrix(view(2, 4)), ..gemm }.run(&mut c, &mut vec![0.0; need]);
    assert_eq!(wrong, Err(GemmError::Addend { addend: (2, 4), c: (3, 4) }));
    let mut buffer = vec![0.0; PackedB::<f32>::buffer_len(2, 4)];
    assert!(PackedB::new(view(2, 4), &mut buffer[1..]).is_err());
    let packed = PackedB::new_on(Isa::Baseline, view(2, 4), &mut buffer).expect("packed");
    if Isa::widest() > Isa::Baseline {
        let other = Gemm { b: Rhs::Packed(packed), ..gemm }.run_on(Isa::Avx2, &mut c, &mut vec![0.0; need]);
        assert_eq!(other, Err(GemmError::OtherIsa { packed: Isa::Baseline, run: Isa::Avx2 }));
    }
    assert_eq!(out, [7.0; 12]);
}
