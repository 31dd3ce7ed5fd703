//! The CUDA source of this crate's ops compiles, with no GPU, and a mistake in one is named.

use add_an_op::{Mish, ScaleRows};
use landfall::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source};
use landfall::ops::{Body, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested};
use landfall::{DeviceKind, HostTensor, Rule, Spec, cuda_kernel, op_attributes};

#[test]
fn cuda_sources_compile_without_a_gpu() -> Result<(), String> {
    for architecture in ["sm_80", "sm_90a"] {
        let modules = landfall_suite::compile_cuda(&ScaleRows::default(), architecture)?;
        assert!(modules.is_none_or(|modules| modules >= 4), "one for each float dtype: {modules:?}");
        landfall_suite::compile_cuda(&Mish, architecture)?;
    }
    Ok(())
}

op_attributes! {
    /// An op whose CUDA source has a mistake.
    #[derive(Debug, Clone, Copy)]
    pub struct Wrong(x);
}

cuda_kernel! {
    /// A thread for each element.
    struct Args = "wrong", 256;
    n: size,
    x: input T,
    y: output T,
}

static SOURCE: Source = Source {
    name: "wrong",
    pieces: &[Piece::new("wrong", "KERNEL(wrong) {\n    y[thread_index()] = x[nowhere];\n}\n")],
    entries: &[Args::KERNEL],
};

fn on_cuda(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (x, y) = (call.input(0)?, call.output(0)?);
    let n = y.layout().shape().elements();
    let module = Module::new(&SOURCE).of("T", x.dtype());
    call.launch(&module, Geometry::linear(n, 256)?, &Args { n, x, y })
}

impl Op for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        landfall::ops::arity(self, args)?;
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("it is wrong")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const { &[Kernel::cuda("wrong", on_cuda)] }
    }
}

impl Tested for Wrong {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        vec![args[0].clone()]
    }
    fn samples(&self) -> Vec<Sample> {
        vec![Sample::new(*self, vec![SampleArg::any([3])])]
    }
}

#[test]
fn a_mistake_is_named_with_its_line() -> Result<(), String> {
    if landfall_suite::compile_cuda(&Mish, "sm_90a")?.is_none() {
        return Ok(());
    }
    let told =
        landfall_suite::compile_cuda(&Wrong, "sm_90a").expect_err("the text uses a name that it has not");
    assert!(told.contains("wrong.cu(2): error: identifier \"nowhere\" is undefined"), "{told}");
    let told = landfall_suite::compile_cuda(&Mish, "sm_1").expect_err("there is no such architecture");
    assert!(told.contains("sm_1"), "{told}");
    Ok(())
}
