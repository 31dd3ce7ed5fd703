//! The GPU for tests. Where there is none, tests skip and say so; `LANDFALL_REQUIRE_CUDA=1` makes that an error.

use landfall::{Engine, Error};
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
