//! Test binaries and the programs for a machine with a GPU and without Rust: `bundle/`, with a runner.

use crate::command::must;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tests inside of a library: those of the engine's inject faults.
const LIBRARY: &str = "lib";
/// Test targets that have tests on a GPU, by package.
const TESTS: &[(&str, &[&str])] = &[
    (
        "landfall",
        &[
            LIBRARY,
            "suite",
            "composites",
            "contract",
            "cuda",
            "drops",
            "foreign",
            "index_faults",
            "layers",
            "numbers",
            "product",
            "random_graphs",
            "repeat",
            "routing",
        ],
    ),
    ("landfall-train", &["allocations", "cross_asset", "moe", "replay"]),
    ("landfall-forecast", &["accumulation", "golden", "precision", "reuse", "window_regressor"]),
];
/// The name that stands for the Python package and its tests, which are packed where they are named.
const PYTHON: &str = "python";
/// The programs, which are called as their targets, by package.
const PROGRAMS: [(&str, &str); 2] = [("landfall-cli", "landfall"), ("landfall-bench", "landfall-bench")];
/// Files of the shared folder that those tests read, copied where they are there.
const DATA: &[&str] = &["data/ETTh1.csv", "golden"];
/// What travels to such a machine may not be larger.
const LIMIT: u64 = 64 << 20;

/// Runs the tests with a GPU required, or every kernel under compute-sanitizer.
const RUNNER: &str = include_str!("run.sh");

/// Builds and packs these test targets, or all.
pub(crate) fn run(top: &Path, chosen: &[String]) -> Result<(), String> {
    let known =
        |name: &String| name == PYTHON || TESTS.iter().any(|(_, tests)| tests.contains(&name.as_str()));
    if let Some(other) = chosen.iter().find(|name| !known(name)) {
        let all: Vec<&str> = TESTS.iter().flat_map(|(_, tests)| tests.iter().copied()).collect();
        return Err(format!(
            "no test target with tests on a GPU is called {other:?}; there are: {}",
            all.join(", ")
        ));
    }
    let wanted = |test: &&&str| chosen.is_empty() || chosen.iter().any(|c| c == **test);
    let bundle = top.join("bundle");
    if bundle.exists() {
        std::fs::remove_dir_all(&bundle).map_err(|e| format!("{}: {e}", bundle.display()))?;
    }
    make(&bundle.join("tests"))?;
    for (package, tests) in TESTS {
        let tests: Vec<&str> = tests.iter().filter(wanted).copied().collect();
        if tests.is_empty() {
            continue;
        }
        let mut args = vec!["test", "--no-run", "--package", package];
        tests
            .iter()
            .for_each(|t| if *t == LIBRARY { args.push("--lib") } else { args.extend(["--test", t]) });
        for (name, binary) in built(top, &args)? {
            copy(&binary, &bundle.join("tests").join(name))?;
        }
    }
    let packages = PROGRAMS.iter().flat_map(|(package, _)| ["--package", package]);
    for (name, binary) in built(top, &["build"].into_iter().chain(packages).collect::<Vec<_>>())? {
        if PROGRAMS.iter().any(|(_, program)| *program == name) {
            copy(&binary, &bundle.join(name))?;
        }
    }
    if chosen.iter().any(|c| c == PYTHON) {
        python(top, &bundle)?;
    }
    pack(&bundle)?;
    let shared = std::env::var_os("LANDFALL_SHARED").map_or_else(|| top.join("../shared"), PathBuf::from);
    for data in DATA.iter().filter(|d| shared.join(d).exists()) {
        let to = bundle.join("shared").join(data);
        make(to.parent().unwrap_or(&bundle))?;
        must(Command::new("cp").arg("-rL").arg(shared.join(data)).arg(&to))?;
    }
    let runner = bundle.join("run.sh");
    std::fs::write(&runner, RUNNER).map_err(|e| format!("{}: {e}", runner.display()))?;
    must(Command::new("chmod").arg("+x").arg(&runner))?;
    let size = size(&bundle)?;
    println!("bundle/: {:.1} MiB", size as f64 / f64::from(1 << 20));
    if size > LIMIT {
        Err(format!("bundle/ is larger than {} MiB: name some of its tests", LIMIT >> 20))
    } else {
        Ok(())
    }
}

/// The Python package with its extension module, and its tests.
fn python(top: &Path, bundle: &Path) -> Result<(), String> {
    let args = ["build", "--package", "landfall-python", "--features", "extension-module"];
    let library = built(top, &args)?.into_iter().find(|(name, _)| name == "_landfall");
    let (_, library) = library.ok_or("cargo made no extension module")?;
    let to = bundle.join("tests").join(PYTHON);
    make(&to)?;
    for folder in ["landfall", "tests"] {
        must(Command::new("cp").arg("-r").arg(top.join("python").join(folder)).arg(&to))?;
    }
    copy(&top.join("python/stubs.py"), &to.join("stubs.py"))?;
    copy(&library, &to.join("landfall/_landfall.abi3.so"))
}

/// Packs the programs as one: each holds the whole engine, and a window as large as several of them finds what they share.
fn pack(bundle: &Path) -> Result<(), String> {
    let folder = |command: &str, args: &[&str]| {
        let mut command = Command::new(command);
        command.current_dir(bundle).args(args);
        command
    };
    let programs = PROGRAMS.iter().map(|(_, program)| *program);
    let packed = ["cf", "programs.tar", "--remove-files", "tests"].into_iter().chain(programs);
    must(&mut folder("tar", &packed.collect::<Vec<_>>()))?;
    must(&mut folder("xz", &["--threads=0", "--lzma2=preset=1,dict=192MiB", "programs.tar"]))
}

fn make(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(|_| ()).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

/// Runs cargo with the profile for bundles; the executables that it made, by the names of their targets.
fn built(top: &Path, args: &[&str]) -> Result<Vec<(String, PathBuf)>, String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(top)
        .args(args)
        .args(["--profile", "bundle", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo {} ended with {}", args.join(" "), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    Ok(messages
        .filter_map(|m| {
            // A library has no executable, but files.
            let library = m["filenames"]
                .as_array()
                .and_then(|f| f.iter().find_map(|f| f.as_str().filter(|f| f.ends_with(".so"))));
            let file = m["executable"].as_str().or(library)?;
            Some((m["target"]["name"].as_str()?.to_owned(), PathBuf::from(file)))
        })
        .collect())
}

fn size(folder: &Path) -> Result<u64, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut total = 0;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let meta = entry.metadata().map_err(failed)?;
        total += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(total)
}
