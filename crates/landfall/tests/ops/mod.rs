//! Ops of the tests' own: updates, several outputs, permutations and failures, which the op table need not have.
#![allow(dead_code, reason = "each test file uses some of them")]

use landfall::cpu::Call;
use landfall::cuda::{self, Failure, Geometry, KernelArgs, Module, Piece, Source};
use landfall::cuda_kernel;
use landfall::ops::{Body, Coverage, Kernel, Op, Output, Outputs, Sample, Tested, arity, attributes};
use landfall::{DType, DeviceKind, HostTensor, Rule, Spec};

macro_rules! op {
    ($Op:ident $name:literal ($($arg:ident),*); infer $infer:expr; outputs $outputs:expr; reference $reference:expr; kernel $kernel:expr; $(cuda $cuda:expr;)?) => {
        landfall::op_attributes! { impl $Op($($arg),*); }

        impl Op for $Op {
            fn name(&self) -> &'static str {
                $name
            }
            fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
                arity(self, args)?;
                let infer: fn(&Self, &[Spec]) -> Outputs = $infer;
                Ok(infer(self, args))
            }
            fn outputs(&self) -> &[Output] {
                const { $outputs }
            }
            fn body(&self) -> Body {
                Body::Opaque("it exists for tests")
            }
            fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
                const {
                    &[Kernel::cpu($name, |op, call| {
                        let kernel: fn(&$Op, &Call<'_>) -> Result<(), Rule> = $kernel;
                        kernel(attributes::<$Op>(op)?, call)
                    }), $(Kernel::cuda($name, $cuda))?]
                }
            }
}

        impl Tested for $Op {
            fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
                let reference: fn(&Self, &[HostTensor]) -> Vec<HostTensor> = $reference;
                reference(self, args)
            }
            fn samples(&self) -> Vec<Sample> {
                Vec::new()
            }
        }
    };
}

/// `target = target · keep + x`: an update. `f64`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decay {
    /// Factor of what was there.
    pub(crate) keep: f64,
}

op! {
    Decay "decay" (target, x);
    infer |_, args| Outputs::one(args[0]);
    outputs &[Output { coverage: Coverage::Full, ..Output::update(0) }];
    reference |op, args| {
        vec![HostTensor::from_fn(args[0].spec, |i| args[0].data[i] * op.keep + args[1].data[i])]
    };
    kernel |op, call| {
        let (mut out, x) = (call.output::<f64>(0)?, call.input::<f64>(1)?);
        for i in 0..out.elements() {
            let old = out.flat(i);
            out.set_flat(i, old * op.keep + x.flat(i));
        }
        Ok(())
    };
    cuda decay_on_cuda;
}

cuda_kernel! {
    /// A thread updates an element.
    struct Update = "decay", 256;
    x: input_of F64,
    out: output_of F64,
    n: size,
    keep: f64,
}

static DECAY: Source = Source {
    name: "decay",
    pieces: &[Piece::new(
        "decay",
        "KERNEL(decay) {\n    u64 i = thread_index();\n    if (i < n) out[i] = out[i] * keep + x[i];\n}\n",
    )],
    entries: &[Update::KERNEL],
};

fn decay_on_cuda(op: &dyn Op, call: &mut cuda::Call<'_>) -> Result<(), Failure> {
    let (x, out) = (*call.input(1)?, *call.output(0)?);
    let n = x.spec().shape.elements();
    if !x.layout().is_contiguous() {
        let (name, value) =
            ("elements between neighbours of x", x.layout().strides().last().map_or(0.0, |&s| s as f64));
        return Err(Rule::Attribute {
            name,
            value,
            expected: "1: this op of a test takes contiguous operands",
        }
        .into());
    }
    let args = Update { x: &x, out: &out, n, keep: attributes::<Decay>(op)?.keep };
    call.launch(&Module::new(&DECAY), Geometry::linear(n, 256)?, &args)
}

fn set_even(call: &Call<'_>) -> Result<(), Rule> {
    let (mut out, x) = (call.output::<f64>(0)?, call.input::<f64>(1)?);
    (0..out.elements()).step_by(2).for_each(|i| out.set_flat(i, x.flat(i)));
    Ok(())
}

/// `target[i] = x[i]` for even `i`; the others stay: an update of a part. `f64`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetEven;

op! {
    SetEven "set_even" (target, x);
    infer |_, args| Outputs::one(args[0]);
    outputs &[Output::update(0)];
    reference |_, args| {
        let pick = |i: usize| args[usize::from(i.is_multiple_of(2))].data[i];
        vec![HostTensor::from_fn(args[0].spec, pick)]
    };
    kernel |_, call| set_even(call);
}

/// As [`SetEven`], but it forgets to say which input it updates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Undeclared;

op! {
    Undeclared "undeclared" (target, x);
    infer |_, args| Outputs::one(args[0]);
    outputs &[Output { coverage: Coverage::Accumulates, ..Output::FULL }];
    reference |_, args| SetEven.reference(args);
    kernel |_, call| set_even(call);
}

/// `(x + y, x − y)`, each in place on its argument. `f64`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Butterfly;

op! {
    Butterfly "butterfly" (a, b);
    infer |_, args| Outputs::from([args[0], args[0]]);
    outputs &[Output::in_place(&[0]), Output::in_place(&[1])];
    reference |_, args| {
        let of = |sign: f64| HostTensor::from_fn(args[0].spec, |i| args[0].data[i] + sign * args[1].data[i]);
        vec![of(1.0), of(-1.0)]
    };
    kernel |_, call| {
        let (x, y) = (call.input_or_in_place::<f64>(0)?, call.input_or_in_place::<f64>(1)?);
        let (mut sum, mut difference) = (call.output::<f64>(0)?, call.output::<f64>(1)?);
        for i in 0..sum.elements() {
            // An argument in place is always read before either result is stored.
            let a = x.as_ref().map_or_else(|| sum.flat(i), |x| x.flat(i));
            let b = y.as_ref().map_or_else(|| difference.flat(i), |y| y.flat(i));
            sum.set_flat(i, a + b);
            difference.set_flat(i, a - b);
        }
        Ok(())
    };
}

/// Rows of `x: [n, ..]` and of `p: [n]` in reverse order, as two outputs: a permutation with its probabilities. `f64`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReverseRows;

op! {
    ReverseRows "reverse_rows" (a, b);
    infer |_, args| Outputs::from([args[0], args[1]]);
    outputs &[Output::FULL; 2];
    reference |_, args| {
        let rows = args[0].dims()[0];
        let width = args[0].data.len() / rows.max(1);
        let row = |i: usize| (rows - 1 - i / width) * width + i % width;
        vec![
            HostTensor::from_fn(args[0].spec, |i| args[0].data[row(i)]),
            HostTensor::from_fn(args[1].spec, |i| args[1].data[args[1].data.len() - 1 - i]),
        ]
    };
    kernel |_, call| {
        for operand in 0..2 {
            let (x, mut out) = (call.input::<f64>(operand)?, call.output::<f64>(operand)?);
            let rows = out.outer();
            let width = out.elements() / rows.max(1);
            for i in 0..out.elements() {
                out.set_flat(i, x.flat((rows - 1 - i / width) * width + i % width));
            }
        }
        Ok(())
    };
}

/// How [`Faulty`] fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It returns an error.
    Error,
    /// It panics.
    Panic,
    /// It flags an index.
    Index,
}

/// `x`, but its kernel fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faulty(pub(crate) Fault);

op! {
    Faulty "faulty" (x);
    infer |_, args| Outputs::one(args[0]);
    outputs &[Output::FULL];
    reference |_, args| args.to_vec();
    kernel |op, call| {
        let (x, mut out) = (call.input::<f64>(0)?, call.output::<f64>(0)?);
        match op.0 {
            Fault::Error => return Err(Rule::Attribute { name: "fault", value: 1.0, expected: "absent" }),
            Fault::Panic => panic!("the kernel panics, as the test asks"),
            Fault::Index => call.flag(3, -7, 5),
        }
        (0..out.elements()).for_each(|i| out.set_flat(i, x.flat(i)));
        Ok(())
    };
}

/// `x`, for `f64` only and with scratch memory of 64 bytes an element, which it fills with NaN.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hungry;

landfall::op_attributes! { impl Hungry(x); }

impl Op for Hungry {
    fn name(&self) -> &'static str {
        "hungry"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("it exists for tests")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[Kernel::cpu("hungry", |_, call| {
                call.workspace::<f64>()?.fill(f64::NAN);
                let (x, mut out) = (call.input::<f64>(0)?, call.output::<f64>(0)?);
                (0..out.elements()).for_each(|i| out.set_flat(i, x.flat(i)));
                Ok(())
            })
            .accepting(|_, args| args[0].dtype == DType::F64)
            .with_workspace(|_, args| args[0].shape.elements() * 64)]
        }
    }
}

impl Tested for Hungry {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        args.to_vec()
    }
    fn samples(&self) -> Vec<Sample> {
        Vec::new()
    }
}
