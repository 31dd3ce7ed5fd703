//! The targets of a release, in one list: what runs each, and what its wheel is held to. cargo-zigbuild links all: it has the C libraries of
//! Linux, macOS and Windows.

use std::path::Path;
use std::process::{Command, Stdio};

/// A target.
pub(super) struct Target {
    pub(super) triple: &'static str,
    /// The oldest version of glibc that its programs run on; nothing where they do not have it.
    glibc: &'static str,
    /// What stands before a program of the target to run it here; nothing where this machine runs it itself.
    runner: &'static [&'static str],
    /// What maturin is to hold the wheel to; none where no wheel is made.
    wheel: Option<&'static str>,
}

/// All. The results of the first are what those of the others are compared with.
pub(super) const TARGETS: &[Target] = &[
    Target { triple: "x86_64-unknown-linux-gnu", glibc: ".2.17", runner: &[], wheel: Some("manylinux_2_17") },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        glibc: ".2.17",
        runner: &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
        wheel: Some("manylinux_2_17"),
    },
    Target { triple: "x86_64-unknown-linux-musl", glibc: "", runner: &[], wheel: None },
    Target {
        // For `-gnu` functions are not sections of their own, and a program keeps all that nobody calls: half as much again.
        triple: "x86_64-pc-windows-gnullvm",
        glibc: "",
        runner: &["wine"],
        wheel: Some("off"),
    },
    Target { triple: "aarch64-apple-darwin", glibc: "", runner: &[], wheel: Some("off") },
    Target { triple: "x86_64-apple-darwin", glibc: "", runner: &[], wheel: Some("off") },
];

impl Target {
    /// The form of the archive: what the system opens by itself. With gzip the program for x86-64 is larger than an archive may be.
    pub(super) fn form(&self) -> &'static str {
        if self.triple.contains("windows") { "zip" } else { "tar.xz" }
    }

    pub(super) fn program(&self) -> &'static str {
        if self.triple.contains("windows") { "landfall.exe" } else { "landfall" }
    }

    /// The command that runs a program of it here, or why none does.
    pub(super) fn command(&self, program: &Path) -> Result<Command, String> {
        let own = self.triple.starts_with(std::env::consts::ARCH)
            && self.triple.contains(if cfg!(target_os = "macos") { "apple" } else { std::env::consts::OS });
        if own {
            return Ok(Command::new(program));
        }
        let Some((runner, rest)) = self.runner.split_first() else {
            return Err("nothing here runs it".to_owned());
        };
        if !is_there(runner) {
            return Err(format!("{runner} is not here"));
        }
        let mut command = Command::new(runner);
        command.args(rest).arg(program);
        Ok(command)
    }

    /// Cargo, about to build for it.
    pub(super) fn cargo(&self, top: &Path) -> Command {
        let mut cargo = self.begin(top, env!("CARGO"));
        cargo.args(["zigbuild", "--target", &format!("{}{}", self.triple, self.glibc)]);
        cargo
    }

    /// Maturin, about to build a wheel for it, where Python has a name for the target. It takes the linker of the program: with the zig
    /// of its own all crates would be built a second time.
    pub(super) fn maturin(&self, top: &Path) -> Option<Command> {
        let compatibility = self.wheel?;
        let mut maturin = self.begin(top, "maturin");
        maturin.args(["build", "--target", self.triple, "--compatibility", compatibility]);
        let cargo = top.join("xtask/src/release/cargo.sh");
        maturin.env("CARGO", cargo).env("LANDFALL_TRIPLE", self.triple).env("LANDFALL_GLIBC", self.glibc);
        Some(maturin)
    }

    /// A program in the checkout that links for it. Zig has the library of macOS's system, but no framework: names of the one that is
    /// asked for stand in a folder of the form of Apple's kit. Version 11 is the first for both processors.
    fn begin(&self, top: &Path, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(top);
        if self.triple.contains("apple") && cfg!(not(target_os = "macos")) {
            command
                .env("SDKROOT", top.join("xtask/src/release/macos"))
                .env("MACOSX_DEPLOYMENT_TARGET", "11.0");
        }
        command
    }
}

/// Whether there is a program of this name.
pub(super) fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}
