//! Compiles every CUDA kernel without a GPU, with the run-time compiler from its Python wheel.

use crate::command::must;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The compiler, pinned: registers and spills are compared with a snapshot.
const WHEEL: &str = "nvidia-cuda-nvrtc==13.0.88";

/// Installs the compiler in the target folder and runs the test that compiles all modules, or those whose label begins so, for
/// the first architecture, or for those that are named, `all` of them or a list with commas.
pub(crate) fn run(top: &Path, label: Option<&str>, architectures: Option<&str>) -> Result<(), String> {
    let venv = target(top).join("nvrtc");
    let python = venv.join("bin/python3");
    if !python.exists() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).stderr(Stdio::null()).status();
        if !made.as_ref().is_ok_and(std::process::ExitStatus::success) {
            _ = std::fs::remove_dir_all(&venv);
            println!(
                "SKIPPED: no CUDA kernel was compiled, because `python3 -m venv` does not work here ({made:?})"
            );
            return Ok(());
        }
    }
    must(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        WHEEL,
    ]))?;
    let library = library(&venv)?;
    must(
        Command::new(env!("CARGO"))
            .current_dir(top)
            // The whole workspace, whose features the other tests were built with.
            .args(["test", "--workspace", "--test", "kernels", "--", "--nocapture"])
            .envs(label.map(|l| ("LANDFALL_KERNELS", l)))
            .envs(architectures.map(|a| ("LANDFALL_ARCHITECTURES", a)))
            .env("LD_LIBRARY_PATH", library)
            .env("LANDFALL_REQUIRE_NVRTC", "1"),
    )
}

fn target(top: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| top.join("target"), PathBuf::from)
}

/// The folder of the library in a virtual environment: `lib/python3.*/site-packages/nvidia/cu13/lib`.
fn library(venv: &Path) -> Result<PathBuf, String> {
    let lib = venv.join("lib");
    let found = std::fs::read_dir(&lib).map_err(|e| format!("{}: {e}", lib.display()))?;
    let mut folders = found.filter_map(Result::ok).map(|e| e.path().join("site-packages/nvidia/cu13/lib"));
    folders
        .find(|f| f.join("libnvrtc.so.13").exists())
        .ok_or_else(|| format!("{WHEEL} has no libnvrtc.so.13 under {}", lib.display()))
}
