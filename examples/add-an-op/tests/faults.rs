//! What the suite and the engine say of an op whose definition is wrong: a false alias rule, elements that are not written, an index
//! out of range.

use landfall::ops::{
    Body, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, arity, attributes,
    pointwise_reference,
};
use landfall::{DeviceKind, Engine, Error, HostTensor, Rule, Spec, cpu, op_attributes, with_dtype};

op_attributes! {
    /// `y[i] = 2·x[n − 1 − i]` of a vector, with a fault.
    #[derive(Debug, Clone, Copy)]
    pub struct Reversed(x) {
        /// Says that it may run in place, though it reads elements after it has written there.
        pub in_place: bool = false,
        /// Leaves the last element as it is.
        pub short: bool = false,
        /// Reads one element too far, and reports it as a kernel does that checks its indices.
        pub beyond: bool = false,
    }
}

impl Op for Reversed {
    fn name(&self) -> &'static str {
        "reversed"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        let x = args[0];
        if !x.dtype.is_float() {
            return Err(Rule::Dtype { arg: 0, dtype: x.dtype, expected: "a float" });
        }
        Ok(Outputs::one(x))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0]), Output::FULL] }
            .split_at(usize::from(!self.in_place))
            .1
            .split_at(1)
            .0
    }
    fn body(&self) -> Body {
        Body::Opaque("a test")
    }
    fn vjp(&self) -> Grad {
        Grad::None("a test")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[Kernel::cpu("reversed", |op, call| {
                let op = attributes::<Reversed>(op)?;
                with_dtype!(float call.dtype(0)?, T => run::<T>(op, call), else Ok(()))
            })]
        }
    }
}

fn run<T: landfall::Element>(op: &Reversed, call: &cpu::Call<'_>) -> Result<(), Rule> {
    let (x, mut out) = (call.input_or_in_place::<T>(0)?, call.output::<T>(0)?);
    let n = out.elements();
    for i in 0..n - usize::from(op.short && n > 0) {
        let from = n - 1 - i;
        let value = x.as_ref().map_or_else(|| out.read().flat(from), |x| x.flat(from));
        out.set_flat(i, T::from_f64(2.0 * value.to_f64()));
    }
    if op.beyond {
        call.flag(n, n as i64, n);
    }
    Ok(())
}

impl Tested for Reversed {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let n = args[0].data.len();
        let mut back = args[0].clone();
        (0..n).for_each(|i| back.data[i] = args[0].data[n - 1 - i]);
        pointwise_reference(&[back], args[0].spec.dtype, |x| 2.0 * x[0])
    }
    fn samples(&self) -> Vec<Sample> {
        vec![
            Sample::new(*self, vec![SampleArg::any([7])]),
            Sample::bad(*self, vec![], "takes 1 argument (x), got 0"),
        ]
    }
}

fn told(op: Reversed, property: &str) -> String {
    landfall_suite::check(&op, property).err().unwrap_or_default()
}

#[test]
fn a_sound_op_passes() {
    for property in ["parity", "layouts", "poison", "guards", "aliasing", "refused"] {
        assert_eq!(landfall_suite::check(&Reversed::default(), property), Ok(()), "{property}");
    }
}

#[test]
fn a_false_alias_rule_is_named() {
    let why = told(Reversed { in_place: true, ..Reversed::default() }, "aliasing");
    assert!(why.contains("reversed"), "{why}");
}

#[test]
fn elements_that_are_not_written_are_named() {
    let why = told(Reversed { short: true, ..Reversed::default() }, "poison");
    assert!(why.contains("reversed") && why.contains("element 6"), "{why}");
}

#[test]
fn an_index_out_of_range_is_named() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let x = engine.tensor([3], &[1.0f32, 2.0, 3.0])?;
    let y = engine.eval(&Reversed { beyond: true, ..Reversed::default() }, &[x.view()])?;
    let why = y.read::<f32>().err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(why, "reversed: index 3 at position 3 is out of range 0..3; the kernel clamped it");
    assert_eq!(x.read::<f32>()?, [1.0, 2.0, 3.0]);
    Ok(())
}
