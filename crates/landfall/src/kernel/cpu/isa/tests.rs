use super::*;
use crate::values::Element;

struct Polynomial<'a> {
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Polynomial<'_> {
    type Output = Isa;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Isa {
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            *out = (x * 1.25 + 0.3) * x - 2.1;
        }
        S::ISA
    }
}

#[test]
fn pointwise_bytes_do_not_depend_on_the_instruction_set() {
    let x: Vec<f32> = (0..1003).map(|i| (i as f32).sin() * 3.0).collect();
    let expected: Vec<u32> = x.iter().map(|&x| ((x * 1.25 + 0.3) * x - 2.1).to_bits()).collect();
    for isa in Isa::available() {
        let mut out = vec![f32::NAN; x.len()];
        assert_eq!(dispatch_on(isa, Polynomial { x: &x, out: &mut out }), isa);
        assert_eq!(out.iter().map(|y| y.to_bits()).collect::<Vec<_>>(), expected, "{}", isa.name());
    }
}

#[test]
fn a_set_that_the_cpu_lacks_is_never_run() {
    assert!(Isa::detect() <= Isa::widest());
    let mut out = [0.0];
    let ran = dispatch_on(Isa::Avx512, Polynomial { x: &[1.0], out: &mut out });
    assert_eq!(ran, Isa::widest());
    assert_eq!(dispatch(Polynomial { x: &[1.0], out: &mut out }), Isa::detect());
}

#[test]
fn names_are_read_back() {
    for &isa in Isa::ALL {
        assert_eq!(Isa::parse(isa.name()), Some(isa));
    }
    assert_eq!(Isa::parse("AVX512"), None);
    assert_eq!(Isa::Baseline.lanes::<f32>(), 4);
    assert_eq!(Isa::Baseline.lanes::<f64>(), 2);
}

#[test]
fn runs_of_four_become_lines_and_return() {
    struct Turn<'a, T>(&'a [T], [usize; 16], Vec<T>);
    impl<T: Element<Acc: Real>> Kernel for Turn<'_, T> {
        type Output = ([[T::Acc; 16]; 4], Vec<T>);
        #[inline(always)]
        fn run<S: Simd>(mut self, simd: S) -> Self::Output {
            let lines = <T::Acc as Real>::lines(simd, self.0, &self.1);
            T::Acc::unlines(simd, &lines, &mut self.2, &self.1);
            (lines, self.2)
        }
    }
    fn check<T: Element<Acc: Real>>() {
        // The last run ends where the data does.
        let at: [usize; 16] = std::array::from_fn(|l| (l * 7) % 16 * 5);
        let x: Vec<T> = (0..79).map(|i| T::from_f64(f64::from(i) + 1.0)).collect();
        for isa in Isa::available() {
            let (lines, back) = dispatch_on(isa, Turn(&x, at, vec![T::from_f64(0.0); x.len()]));
            for (c, line) in lines.iter().enumerate() {
                assert!((0..16).all(|l| line[l] == x[at[l] + c].widen()), "line {c}, {}", isa.name());
            }
            for (i, (back, x)) in back.iter().zip(&x).enumerate() {
                let expected = if i % 5 < 4 { *x } else { T::from_f64(0.0) };
                assert_eq!(*back, expected, "{}, element {i}", isa.name());
            }
            let past = at.map(|at| at + 1);
            let run = std::panic::AssertUnwindSafe(|| dispatch_on(isa, Turn(&x, past, x.clone())));
            let fails = std::panic::catch_unwind(run);
            assert!(fails.is_err(), "{}: a run past the data is read", isa.name());
        }
    }
    check::<f32>();
    check::<f64>();
    check::<half::bf16>();
}

#[test]
fn a_sum_of_products_is_rounded_once_where_there_is_an_instruction() {
    struct Sum<A>([A; 3]);
    impl<A: Real> Kernel for Sum<A> {
        type Output = A;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> A {
            let [a, b, c] = self.0;
            simd.mul_add(a, b, c)
        }
    }
    // The square of 1 + 2^-12 has a last term of 2^-24, which a second rounding loses.
    let x = 1.0 + f32::EPSILON * 2048.0;
    for isa in Isa::available() {
        let expected = if isa == Isa::Baseline && !BASELINE_FUSES { x * x - 1.0 } else { x.mul_add(x, -1.0) };
        assert_eq!(dispatch_on(isa, Sum([x, x, -1.0])), expected, "{}", isa.name());
    }
    assert_ne!(x * x - 1.0, x.mul_add(x, -1.0));
}
