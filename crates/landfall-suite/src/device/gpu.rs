//! The GPU for tests. Where there is none, tests skip and say so; `LANDFALL_REQUIRE_CUDA=1` makes that an error.

use landfall::{DeviceKind, Engine, Error};
use std::io::Write;
use std::sync::OnceLock;

/// An engine on the first GPU that all tests of a process share, or `None` to skip.
///
/// # Errors
/// Why there is none, where one is required.
pub(crate) fn gpu() -> Result<Option<Engine>, Error> {
    static SHARED: OnceLock<Result<Engine, Error>> = OnceLock::new();
    match SHARED.get_or_init(|| Engine::cuda(0)) {
        Ok(engine) => Ok(Some(engine.clone())),
        Err(why) if std::env::var_os("LANDFALL_REQUIRE_CUDA").is_some_and(|v| v == "1") => Err(why.clone()),
        Err(why) => {
            // Past the harness, which would keep it to itself. A closed stream is no reason to fail.
            static SAID: OnceLock<()> = OnceLock::new();
            SAID.get_or_init(|| _ = writeln!(std::io::stderr(), "tests on a GPU are skipped: {why}"));
            Ok(None)
        }
    }
}

/// Another engine on the same device, whose counts, reports and memory are the test's alone: a GPU's is shared by tests that
/// run beside it.
///
/// # Errors
/// Why there is none.
#[allow(dead_code, reason = "not every test file needs one")]
pub(crate) fn own(engine: &Engine) -> Result<Engine, Error> {
    match engine.device() {
        DeviceKind::Cuda(ordinal) => Engine::cuda(ordinal),
        DeviceKind::Cpu => Engine::cpu_with_threads(2),
        DeviceKind::Null => Ok(Engine::null()),
    }
}

/// Makes two tests of a check that takes an engine: `name::cpu`, and `name::cuda`, which skips where there is no GPU.
#[allow(unused_macros, reason = "not every test file has such checks")]
macro_rules! on_each_device {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn cpu() -> Result<(), Box<dyn std::error::Error>> {
                super::$name(&landfall::Engine::cpu_with_threads(2)?)?;
                Ok(())
            }

            #[test]
            fn cuda() -> Result<(), Box<dyn std::error::Error>> {
                if let Some(engine) = crate::gpu::gpu()? {
                    super::$name(&engine)?;
                }
                Ok(())
            }
        })+
    };
}
#[allow(unused_imports, reason = "not every test file has such checks")]
pub(crate) use on_each_device;
