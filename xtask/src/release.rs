//! What a release consists of, in `dist/`: archives of the program, wheels, sums and the release note. Nothing is published.

mod targets;
mod walk;

use crate::command::{must, output};
use crate::licenses;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use targets::{TARGETS, Target, is_there};

/// Of the program and of the wheel, in which the program is too.
const FEATURES: &str = "landfall-cli/parquet,landfall-python/extension-module";
/// What a release is made with, and where each is from.
const TOOLS: [(&str, &str); 5] = [
    ("cargo-zigbuild", "pip install cargo-zigbuild"),
    ("maturin", "pip install maturin"),
    ("tar", "install it from the system's packages"),
    ("xz", "install it from the system's packages"),
    ("7z", "install the system's package p7zip-full or 7zip"),
];
/// An archive may not be larger.
const LIMIT: u64 = 14_000_000;
/// The shells whose completions are in an archive, with the names of their files.
const SHELLS: [(&str, &str); 4] = [
    ("bash", "landfall.bash"),
    ("fish", "landfall.fish"),
    ("zsh", "_landfall"),
    ("powershell", "_landfall.ps1"),
];
/// Files of the checkout that each archive has too.
const DOCUMENTS: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Arguments of `cargo xtask release`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Targets, such as x86_64-unknown-linux-musl [default: all]
    #[arg(value_name = "TARGET", value_parser = clap::builder::PossibleValuesParser::new(TARGETS.iter().map(|t| t.triple)))]
    targets: Vec<String>,
    /// Archives alone, without wheels
    #[arg(long)]
    no_wheels: bool,
    /// Run the programs of dist/ that run here, instead of building; prints the table of docs/platforms.md
    #[arg(long, conflicts_with = "no_wheels")]
    check: bool,
}

/// Builds and packs, or runs what was built.
pub(crate) fn run(top: &Path, arguments: &Arguments) -> Result<(), String> {
    let named = |target: &&Target| arguments.targets.iter().any(|name| name == target.triple);
    let all = arguments.targets.is_empty();
    let dist = top.join("dist");
    let version = agreed(&metadata(top)?, &read(&top.join("python/pyproject.toml"))?)?;
    if arguments.check {
        let chosen = TARGETS.iter().filter(|t| all || named(t));
        return walk::run(&dist, &chosen.map(|t| (t, folder(t, &version))).collect::<Vec<_>>());
    }
    // Before minutes of building.
    if let Some(missing) = TOOLS.iter().find(|(tool, _)| !is_there(tool)) {
        return Err(format!("{} is not here: {}", missing.0, missing.1));
    }
    let chosen: Vec<&Target> = TARGETS.iter().filter(|t| all || named(t)).collect();
    let third = licenses::list(top, "landfall-cli", "the program", &["landfall-cli/parquet"])?;
    let programs = chosen.iter().map(|target| build(top, target)).collect::<Result<Vec<_>, _>>()?;
    let completions = completions(&chosen, &programs)?;
    for (target, program) in chosen.iter().zip(&programs) {
        let folder = dist.join(folder(target, &version));
        fill(top, &folder, program, &third, &completions)?;
        pack(&dist, &folder, target.form())?;
        if !arguments.no_wheels {
            wheel(top, &dist, target)?;
        }
    }
    write(&dist.join("NOTES.md"), note(&read(&top.join("CHANGELOG.md"))?, &version)?)?;
    write(&dist.join("SHA256SUMS"), sums(&dist)?)?;
    print!("{}", read(&dist.join("SHA256SUMS"))?);
    Ok(())
}

/// The version of the wheel, where all published crates have it and ask for each other by it.
fn agreed(metadata: &Value, pyproject: &str) -> Result<String, String> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let name = |package: &Value| package["name"].as_str().unwrap_or_default().to_owned();
    let published: Vec<&Value> = packages().filter(|p| p["publish"] != Value::Array(Vec::new())).collect();
    let python =
        packages().find(|p| p["name"] == "landfall-python").ok_or("there is no package landfall-python")?;
    let version = python["version"].as_str().ok_or("landfall-python has no version")?;
    for package in published {
        if package["version"] != version {
            return Err(format!("{} has version {}, the wheel {version}", name(package), package["version"]));
        }
        let own = package["dependencies"].as_array().into_iter().flatten();
        // A dependency of tests alone may have no version: `*`.
        let wanted = format!("^{version}");
        let of_path = own.filter(|d| d["path"].is_string() && d["kind"] != "dev");
        if let Some(other) = of_path.into_iter().find(|d| d["req"] != wanted) {
            return Err(format!(
                "{} asks for {} {}, which is {version}",
                name(package),
                name(other),
                other["req"]
            ));
        }
    }
    if pyproject.lines().any(|line| line.trim() == "dynamic = [\"version\"]") {
        Ok(version.to_owned())
    } else {
        Err("python/pyproject.toml has a version of its own: it must be dynamic = [\"version\"]".to_owned())
    }
}

/// What the folder in an archive is called.
fn folder(target: &Target, version: &str) -> String {
    format!("landfall-{version}-{}", target.triple)
}

/// Builds the program.
fn build(top: &Path, target: &Target) -> Result<PathBuf, String> {
    let mut cargo = target.cargo(top);
    // Selected with the wheel's package, crates below have the features that they have in the wheel, and are built once for both.
    cargo.args(["--package", "landfall-cli", "--package", "landfall-python", "--bin", "landfall"]);
    must(cargo.args(["--features", FEATURES, "--profile", "bundle"]))?;
    let metadata = metadata(top)?;
    let cargo = metadata["target_directory"].as_str().ok_or("cargo names no folder that it builds in")?;
    Ok(Path::new(cargo).join(target.triple).join("bundle").join(target.program()))
}

/// Completions by the name of their file, written by the first program that runs here: they are the same for all.
fn completions(targets: &[&Target], programs: &[PathBuf]) -> Result<Vec<(&'static str, String)>, String> {
    let mut run = targets.iter().zip(programs).filter(|(target, program)| target.command(program).is_ok());
    let (target, program) =
        run.next().ok_or("no target runs here, to write completions of shells: name one that does, too")?;
    let one = |(shell, file)| Ok((file, output(target.command(program)?.args(["completions", shell]))?));
    SHELLS.into_iter().map(one).collect()
}

/// Fills the folder of an archive.
fn fill(
    top: &Path,
    folder: &Path,
    program: &Path,
    third: &str,
    completions: &[(&str, String)],
) -> Result<(), String> {
    let shells = folder.join("completions");
    std::fs::create_dir_all(&shells).map_err(|e| format!("{}: {e}", shells.display()))?;
    copy(program, &folder.join(program.file_name().unwrap_or_default()))?;
    for document in DOCUMENTS {
        copy(&top.join(document), &folder.join(document))?;
    }
    write(&folder.join("THIRD-PARTY.md"), third)?;
    completions.iter().try_for_each(|(file, text)| write(&shells.join(file), text))
}

/// Packs a folder of `dist`.
fn pack(dist: &Path, folder: &Path, form: &str) -> Result<(), String> {
    let name = folder.file_name().unwrap_or_default();
    let archive = dist.join(format!("{}.{form}", name.to_string_lossy()));
    // 7z adds to an archive that is there.
    remove(&archive)?;
    let (program, arguments): (_, &[&str]) = if form == "zip" {
        ("7z", &["a", "-tzip", "-mx=9", "-mfb=258", "-mpass=15", "-bso0", "-bsp0"])
    } else {
        ("tar", &["--sort=name", "--owner=0", "--group=0", "--use-compress-program=xz -9", "-cf"])
    };
    must(Command::new(program).current_dir(dist).args(arguments).arg(&archive).arg(name))?;
    let size = std::fs::metadata(&archive).map_err(|e| format!("{}: {e}", archive.display()))?.len();
    println!("dist/{}.{form}: {:.1} MB", name.to_string_lossy(), size as f64 / 1e6);
    if size > LIMIT {
        return Err(format!("{} has {size} bytes, more than {LIMIT}", archive.display()));
    }
    Ok(())
}

/// Builds the wheel for the target, where Python has a name for it.
fn wheel(top: &Path, dist: &Path, target: &Target) -> Result<(), String> {
    let Some(mut maturin) = target.maturin(top) else { return Ok(()) };
    maturin.args(["--profile", "bundle", "--manifest-path", "python/Cargo.toml"]);
    maturin.args(["--features", FEATURES]).arg("--out").arg(dist);
    must(&mut maturin)
}

/// The part of the changelog on this version, or on what is not released yet, without its heading.
fn note(changelog: &str, version: &str) -> Result<String, String> {
    let of = |name: &str| {
        let heading = format!("## [{name}]");
        let mut lines = changelog.lines().skip_while(|line| !line.starts_with(&heading));
        lines.next()?;
        let text: Vec<&str> = lines.take_while(|line| !line.starts_with("## [")).collect();
        Some(text.join("\n").trim().to_owned()).filter(|text| !text.is_empty())
    };
    // Between two releases the version's section is that of the last.
    let text = of("Unreleased").or_else(|| of(version));
    let text = text.ok_or_else(|| format!("CHANGELOG.md has nothing under [Unreleased] or [{version}]"))?;
    Ok(format!("# Landfall {version}\n\n{text}\n"))
}

/// The sum of each archive and wheel, in the form that `sha256sum --check` reads.
fn sums(dist: &Path) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", dist.display());
    let entries = std::fs::read_dir(dist).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let packed = |name: &String| [".tar.xz", ".zip", ".whl"].iter().any(|end| name.ends_with(end));
    let mut names: Vec<String> = names.filter(packed).collect();
    names.sort();
    let mut text = String::new();
    for name in names {
        let bytes = std::fs::read(dist.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "{sum}  {name}");
    }
    Ok(text)
}

/// What cargo says of the workspace's own packages.
fn metadata(top: &Path) -> Result<Value, String> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    let text = output(Command::new(env!("CARGO")).current_dir(top).args(arguments))?;
    serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(|_| ()).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{agreed, note};
    use serde_json::json;

    #[test]
    fn the_note_is_the_section_of_what_is_released() {
        let log =
            "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-01\n\n- new\n\n## [0.1.0]\n\n- old\n";
        assert_eq!(note(log, "0.2.0").as_deref(), Ok("# Landfall 0.2.0\n\n- new\n"));
        assert!(note(log, "0.3.0").is_err_and(|why| why.contains("[0.3.0]")));
        let open = log.replace("## [Unreleased]\n", "## [Unreleased]\n\n- newest\n");
        assert_eq!(note(&open, "0.2.0").as_deref(), Ok("# Landfall 0.2.0\n\n- newest\n"));
    }

    #[test]
    fn versions_that_differ_are_refused() {
        let metadata = |engine: &str, asked: &str| {
            let of = json!([{"name": "landfall", "path": "crates/landfall", "kind": null, "req": asked}]);
            json!({"packages": [
                {"name": "landfall", "version": engine, "publish": null, "dependencies": []},
                {"name": "landfall-cli", "version": "0.2.0", "publish": null, "dependencies": of},
                {"name": "xtask", "version": "9.0.0", "publish": [], "dependencies": []},
                {"name": "landfall-python", "version": "0.2.0", "publish": [], "dependencies": []},
            ]})
        };
        let dynamic = "[project]\ndynamic = [\"version\"]\n";
        assert_eq!(agreed(&metadata("0.2.0", "^0.2.0"), dynamic).as_deref(), Ok("0.2.0"));
        assert!(agreed(&metadata("0.1.0", "^0.2.0"), dynamic).is_err_and(|why| why.contains("landfall has")));
        assert!(
            agreed(&metadata("0.2.0", "^0.1.0"), dynamic).is_err_and(|why| why.contains("asks for landfall"))
        );
        let fixed = agreed(&metadata("0.2.0", "^0.2.0"), "[project]\nversion = \"0.2.0\"\n");
        assert!(fixed.is_err_and(|why| why.contains("pyproject")));
    }
}
