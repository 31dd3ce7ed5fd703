//! The CUDA source of an op, compiled on a machine without a GPU.

use landfall::cuda::{Absence, Compiler, Module, launches};
use landfall::ops::Tested;
use landfall::{DType, Error, Rule, Spec};
use std::collections::HashMap;

/// The CUDA modules of an op's samples in every dtype that they take, each once, with these dtypes. It takes no GPU and no CUDA.
///
/// # Errors
/// What a kernel refuses before its launch, but for a dtype that it does not have.
pub fn cuda_modules(op: &dyn Tested) -> Result<Vec<(Module, Vec<DType>)>, String> {
    let mut found: HashMap<Module, Vec<DType>> = HashMap::new();
    for sample in op.samples().iter().filter(|sample| sample.refused.is_none()) {
        for &dtype in DType::ALL {
            let spec = |arg: &landfall::ops::SampleArg| Spec::new(arg.dtype.unwrap_or(dtype), arg.shape);
            let specs: Vec<Spec> = sample.args.iter().map(spec).collect();
            if sample.op.infer(&specs).is_err() {
                continue;
            }
            let modules = match launches(sample.op.as_ref(), &specs) {
                Ok(modules) => modules,
                // A property of the suite lists these; here they have nothing to compile.
                Err(Error::Op(e)) if matches!(e.rule, Rule::Unsupported { .. }) => continue,
                Err(e) => return Err(e.to_string()),
            };
            for (module, _) in modules {
                let dtypes = found.entry(module).or_default();
                if !dtypes.contains(&dtype) {
                    dtypes.push(dtype);
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Compiles the CUDA source of an op for an architecture, such as `sm_90a`, with the run-time compiler, on a machine without a GPU:
/// every module of its samples in every dtype. Returns how many modules that were; `None`, said, where the compiler is not there
/// (`pip install nvidia-cuda-nvrtc`, and `LD_LIBRARY_PATH`), which `LANDFALL_REQUIRE_NVRTC=1` makes an error.
///
/// ```
/// use landfall::ops::Abs;
/// match landfall_suite::compile_cuda(&Abs, "sm_90a")? {
///     Some(modules) => assert!(modules > 0),
///     None => println!("no run-time compiler here"),
/// }
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// The compiler's message, with file and line; an architecture that it does not know; an op without a CUDA kernel.
pub fn compile_cuda(op: &dyn Tested, architecture: &str) -> Result<Option<usize>, String> {
    let compiler = match Compiler::uncached(architecture) {
        Ok(compiler) => compiler,
        Err(absent @ (Absence::Feature | Absence::Nvrtc))
            if std::env::var_os("LANDFALL_REQUIRE_NVRTC").is_none() =>
        {
            eprintln!("skipped: no CUDA source of {} was compiled: {absent}", op.name());
            return Ok(None);
        }
        Err(absent) => return Err(absent.to_string()),
    };
    let modules = cuda_modules(op)?;
    if modules.is_empty() {
        return Err(format!("{} has no CUDA kernel for any of its samples", op.name()));
    }
    let fits = |module: &&Module| module.architecture().is_none_or(|only| only == architecture);
    let modules: Vec<&Module> = modules.iter().map(|(module, _)| module).filter(fits).collect();
    for module in &modules {
        compiler.compile(module).map_err(|e| e.to_string())?;
    }
    Ok(Some(modules.len()))
}
