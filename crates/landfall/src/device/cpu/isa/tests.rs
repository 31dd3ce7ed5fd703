use super::*;

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
