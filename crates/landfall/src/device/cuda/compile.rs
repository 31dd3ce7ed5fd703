//! NVRTC: CUDA C++ source to machine code for one architecture, cached on disk.

use super::cache::Cache;
use super::probe;
use crate::device::cache;
use crate::error::{Absence, Error, Version};
use crate::kernel::cuda::{Compiled, Module};
use cudarc::nvrtc::result::{self as nvrtc, NvrtcError};
use cudarc::nvrtc::sys;
use std::ffi::{CStr, CString};

/// Compiles modules for one architecture. Needs no GPU and no driver.
#[derive(Debug, Clone)]
pub struct Compiler {
    version: Version,
    arch: String,
    cache: Option<Cache>,
}

// No fast-math: division, square roots and subnormal numbers stay exact. Line numbers cost nothing at run time and let
// a memory checker name the line.
const OPTIONS: &[&str] = &[
    "--std=c++17",
    "--fmad=false",
    "--generate-line-info",
    "--ptxas-options=--verbose",
    "--ptxas-options=--warn-on-spills",
];

impl Compiler {
    /// A compiler for an architecture such as `sm_90a`, with the cache on disk.
    ///
    /// # Errors
    /// [`Absence::Nvrtc`], [`Absence::NvrtcVersion`], [`Absence::Architecture`].
    pub fn new(arch: &str) -> Result<Self, Absence> {
        let mut this = Self::uncached(arch)?;
        this.cache = cache::folder().map(|f| Cache::new(f.join("kernels")));
        Ok(this)
    }

    /// A compiler for an architecture, without the cache.
    ///
    /// # Errors
    /// As [`Compiler::new`].
    pub fn uncached(arch: &str) -> Result<Self, Absence> {
        let version = probe::nvrtc()?;
        if !architectures().contains(&number(arch)) {
            return Err(Absence::Architecture { version, arch: arch.to_owned() });
        }
        Ok(Self { version, arch: arch.to_owned(), cache: None })
    }

    /// The architecture that it compiles for.
    pub(super) fn arch(&self) -> &str {
        &self.arch
    }

    /// The architecture of a compute capability: from Hopper on with architecture-specific features.
    pub(super) fn architecture((major, minor): (i32, i32)) -> String {
        format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" })
    }

    /// Compiles a module.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's log, or if the module is for another architecture.
    pub fn compile(&self, module: &Module) -> Result<Compiled, Error> {
        if let Some(only) = module.architecture().filter(|only| *only != self.arch) {
            let why = format!("it is written for {only} alone");
            return Err(Error::Compile { module: module.label(), arch: self.arch.clone(), why });
        }
        let text = module.text();
        let (arch, version) = (format!("--gpu-architecture={}", self.arch), self.version.to_string());
        let options: Vec<&str> = OPTIONS.iter().copied().chain([arch.as_str()]).collect();
        let joined = options.join(" ");
        let parts = [text.as_str(), joined.as_str(), version.as_str()];
        if let Some(code) = self.cache.as_ref().and_then(|c| c.get(&parts)) {
            return Ok(Compiled { code, log: String::new() });
        }
        let compiled = self.run(module, &text, &options)?;
        if let Some(cache) = &self.cache {
            cache.put(&parts, &compiled.code);
        }
        Ok(compiled)
    }

    fn run(&self, module: &Module, text: &str, options: &[&str]) -> Result<Compiled, Error> {
        let failed = |why: String| Error::Compile { module: module.label(), arch: self.arch.clone(), why };
        let called = |e: NvrtcError| failed(e.to_string());
        let source = CString::new(text).map_err(|_| failed("the text holds a zero byte".to_owned()))?;
        let program = Program(nvrtc::create_program(&source, Some(c"landfall.cu")).map_err(called)?);
        // SAFETY: the program exists, and `source` outlives it.
        let compiled = unsafe { nvrtc::compile_program(program.0, options) };
        let log = program.log().map_err(called)?;
        if let Err(e) = compiled {
            let lines: Vec<&str> =
                log.lines().map(str::trim).filter(|l| l.contains("error") && !l.is_empty()).take(3).collect();
            return Err(failed(if lines.is_empty() { e.to_string() } else { lines.join("; ") }));
        }
        Ok(Compiled { code: program.code().map_err(called)?, log })
    }
}

/// The number in the name of an architecture: 90 of `sm_90a`; 0 if there is none.
fn number(arch: &str) -> i32 {
    arch.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic).parse().unwrap_or(0)
}

/// Numbers of the architectures that NVRTC supports.
fn architectures() -> Vec<i32> {
    let mut count = 0;
    // SAFETY: the library was found; it writes one int.
    let asked = unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) };
    let mut known =
        vec![0; if asked == sys::nvrtcResult::NVRTC_SUCCESS { count.unsigned_abs() as usize } else { 0 }];
    if !known.is_empty() {
        // SAFETY: the library writes as many ints as it said.
        _ = unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) };
    }
    known
}

/// An NVRTC program, destroyed when it drops.
struct Program(sys::nvrtcProgram);

impl Program {
    fn log(&self) -> Result<String, NvrtcError> {
        // SAFETY: the program exists.
        let raw = unsafe { nvrtc::get_program_log(self.0) }?;
        Ok(CStr::from_bytes_until_nul(bytemuck::cast_slice(&raw))
            .map(|t| t.to_string_lossy().into_owned())
            .unwrap_or_default())
    }

    fn code(&self) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program exists and is compiled; the library writes a number.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut size) }.result()?;
        let mut code = vec![0u8; size];
        // SAFETY: the library writes as many bytes as it said.
        unsafe { sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) }.result()?;
        Ok(code)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        _ = unsafe { nvrtc::destroy_program(self.0) };
    }
}
