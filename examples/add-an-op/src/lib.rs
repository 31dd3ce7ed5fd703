//! `scale_rows`: an op outside of the engine's crate, with everything that one of the table has.

use landfall::codegen::Unary;
use landfall::cuda::{self, Geometry, KernelArgs, Module, Piece, Source};
use landfall::ops::{
    Body, Data, Grad, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, arity, attributes,
    rules,
};
use landfall::{
    DType, DeviceKind, Element, Error, Graph, HostTensor, MAX_RANK, Rule, Spec, Value, cpu, cuda_kernel,
    op_attributes, ops, with_dtype,
};

op_attributes! {
    /// `y[r, j] = (offset + factor[r]) · x[r, j]`.
    ///
    /// `x`: `[.., d]`, float; `factor`: `[..]`, of the same dtype; result as `x`. Arithmetic in the accumulation dtype,
    /// rounded once. In place on `x`. Gradient: `(offset + factor) · gy` and `Σⱼ gy · x`. Deterministic.
    #[derive(Debug, Clone, Copy)]
    pub struct ScaleRows(x, factor) {
        /// Added to each factor.
        pub offset: f64 = 1.0,
    }
}

impl Op for ScaleRows {
    fn name(&self) -> &'static str {
        "scale_rows"
    }

    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        rules::float(args, &[0])?;
        rules::same_dtype(args, 0, 1)?;
        let x = args[0];
        let Some(last) = x.shape.rank().checked_sub(1) else {
            return Err(Rule::Rank { arg: 0, rank: 0, expected: "at least 1" });
        };
        rules::shape(args, 1, x.shape.without(last))?;
        Ok(Outputs::one(x))
    }

    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }

    fn body(&self) -> Body {
        Body::Fused(in_other_ops)
    }

    fn vjp(&self) -> Grad {
        Grad::FromBody
    }

    // Each row needs itself and its factor alone: a segment can do some of them.
    fn independent(&self, args: &[Spec], _: &[Spec]) -> Option<Vec<usize>> {
        let rows = args[0].shape.rank() - 1;
        Some(vec![rows; 3])
    }

    fn mixing(&self) -> Mixing {
        Mixing::BetweenProducts { operands: 2 }
    }

    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const { &[Kernel::cpu("scale_rows", on_cpu), Kernel::cuda("scale_rows", on_cuda)] }
    }

    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements()
    }
}

/// The same result made of the table's ops: the gradient comes from it, and tests compare the kernels with it.
fn in_other_ops(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let offset = attributes::<ScaleRows>(op).map_or(0.0, |op| op.offset);
    let (spec, accumulate) = (g.spec(args[0]), g.spec(args[0]).dtype.accumulate());
    let (x, factor) = (g.cast(args[0], accumulate)?, g.cast(args[1], accumulate)?);
    let factor = g.affine(factor, 1.0, offset)?;
    let column = g.reshape(factor, spec.shape.with(spec.shape.rank() - 1, 1))?;
    Ok(vec![g.cast(g.mul(x, column)?, spec.dtype)?])
}

/// The kernel of the processor: typed views of the operands.
fn on_cpu(op: &dyn Op, call: &cpu::Call<'_>) -> Result<(), Rule> {
    let offset = attributes::<ScaleRows>(op)?.offset;
    let dtype = call.dtype(1)?;
    with_dtype!(float dtype, T => {
        // Nothing where the result lies on `x`: then it is read from the result.
        let x = call.input_or_in_place::<T>(0)?;
        let factor = call.input::<T>(1)?;
        let mut y = call.output::<T>(0)?;
        let rows = factor.elements();
        let length = y.elements().checked_div(rows).unwrap_or(0);
        for r in 0..rows {
            let scale = offset + factor.flat(r).to_f64();
            for i in r * length..(r + 1) * length {
                let value = x.as_ref().map_or_else(|| y.flat(i), |x| x.flat(i));
                y.set_flat(i, T::from_f64(value.to_f64() * scale));
            }
        }
        Ok(())
    }, else Err(Rule::Dtype { arg: 0, dtype, expected: "a float" }))
}

cuda_kernel! {
    /// A thread for each element.
    struct Args = "scale_rows", 256;
    n: size,
    rank: u32,
    shape: dims,
    x: input T,
    stride_x: dims,
    factor: input T,
    stride_factor: dims,
    y: output T,
    stride_y: dims,
    offset: f64,
}

static SOURCE: Source = Source {
    name: "scale_rows",
    pieces: &[Piece::new("scale_rows", include_str!("scale_rows.cu"))],
    entries: &[Args::KERNEL],
};

/// The kernel of a GPU: one launch.
fn on_cuda(op: &dyn Op, call: &mut cuda::Call<'_>) -> Result<(), cuda::Failure> {
    let (x, factor, y) = (call.input(0)?, call.input(1)?, call.output(0)?);
    let shape = y.layout().shape();
    let n = shape.elements();
    if n == 0 {
        return Ok(()); // a grid has at least one block
    }
    // One factor for all elements of a row: along the row its stride is 0.
    let mut stride_factor = [0; MAX_RANK];
    stride_factor[..shape.rank() - 1].copy_from_slice(factor.layout().strides());
    let args = Args {
        n,
        rank: shape.rank() as u32,
        shape: shape.dims(),
        x,
        stride_x: x.layout().strides(),
        factor,
        stride_factor: &stride_factor,
        y,
        stride_y: y.layout().strides(),
        offset: attributes::<ScaleRows>(op)?.offset,
    };
    let module = Module::new(&SOURCE).of("T", x.dtype()).of("A", x.dtype().accumulate());
    call.launch(&module, Geometry::linear(n, 256)?, &args)
}

impl Tested for ScaleRows {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (x, factor) = (&args[0], &args[1]);
        let length = x.spec.shape.last();
        vec![HostTensor::from_fn(x.spec, |i| (self.offset + factor.data[i / length]) * x.data[i])]
    }

    fn samples(&self) -> Vec<Sample> {
        let plain = Self { offset: 0.0 };
        let mut all = vec![
            Sample::new(*self, vec![SampleArg::any([5]), SampleArg::any([])]),
            Sample::new(*self, vec![SampleArg::any([3, 5]), SampleArg::any([3])]),
            Sample::new(*self, vec![SampleArg::any([2, 3, 64]), SampleArg::any([2, 3])]),
            Sample::new(*self, vec![SampleArg::any([0, 4]), SampleArg::any([0])]),
            Sample::new(*self, vec![SampleArg::any([4, 0]), SampleArg::any([4])]),
            Sample::new(plain, vec![SampleArg::any([7, 300]), SampleArg::any([7])]),
        ];
        all.push(Sample::bad(
            *self,
            vec![SampleArg::any([3, 5]), SampleArg::any([5])],
            "arg 1 is [5]; it must be [3]",
        ));
        let ints = || SampleArg::with(Some(DType::I32), [3], Data::Int(0, 5));
        all.push(Sample::bad(*self, vec![ints(), ints()], "it must be f32, f64, bf16 or f16"));
        all.push(Sample::bad(*self, vec![], "takes 2 arguments (x, factor), got 0"));
        all
    }
}

op_attributes! {
    /// `x · tanh(ln(1 + eˣ))`.
    ///
    /// `x`: float; result as `x`. Arithmetic in the accumulation dtype, rounded once. In place on `x`. Deterministic. Source: Misra,
    /// "Mish: A Self Regularized Non-Monotonic Activation Function" (2019).
    #[derive(Debug, Clone, Copy)]
    pub struct Mish(x);
}

impl Op for Mish {
    fn name(&self) -> &'static str {
        "mish"
    }

    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        let x = args[0];
        if !x.dtype.is_float() {
            return Err(Rule::Dtype { arg: 0, dtype: x.dtype, expected: "f32, f64, bf16 or f16" });
        }
        Ok(Outputs::one(x))
    }

    fn outputs(&self) -> &[Output] {
        const { &[Output::in_place(&[0])] }
    }

    fn body(&self) -> Body {
        Body::Pointwise(|_, e| {
            let x = e.arg(0);
            let power = e.unary(Unary::Exp, x);
            let log = e.unary(Unary::Log1p, power);
            let tanh = e.unary(Unary::Tanh, log);
            e.mul(x, tanh)
        })
    }

    fn vjp(&self) -> Grad {
        Grad::Rule(|_, cx| {
            let (g, x) = (cx.graph, cx.inputs[0]);
            let Some(c) = cx.cotangents[0] else { return Ok(vec![None]) };
            let tanh = g.tanh(g.softplus(x)?)?;
            let rest = g.affine(g.square(tanh)?, -1.0, 1.0)?;
            let slope = g.add(tanh, g.mul(g.mul(x, g.sigmoid(x)?)?, rest)?)?;
            Ok(vec![Some(g.mul(c, slope)?)])
        })
    }

    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        ops::pointwise_kernels::<Self>()
    }
}

impl Tested for Mish {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        ops::pointwise_reference(args, args[0].spec.dtype, |x| x[0] * x[0].exp().ln_1p().tanh())
    }

    fn samples(&self) -> Vec<Sample> {
        let mut all = ops::pointwise_samples(*self, &[(-4.0, 4.0)]);
        all.push(Sample::bad(*self, vec![], "takes 1 argument (x), got 0"));
        all
    }
}
