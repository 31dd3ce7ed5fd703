//! A launch that leaves a parameter of the kernel out.
use landfall::cuda::{Call, Failure, Geometry, Module};

landfall::cuda_kernel! {
    struct Scale = "scale", 256;
    x: input T,
    out: output T,
    n: size,
}

fn launch(call: &mut Call<'_>, module: &Module, geometry: Geometry) -> Result<(), Failure> {
    let (x, out) = (call.input(0)?, call.output(0)?);
    call.launch(module, geometry, &Scale { x, out })
}

fn main() {}
