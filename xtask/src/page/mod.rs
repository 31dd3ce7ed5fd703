//! The page that forecasts in a browser: built, and compared with the program.

mod browser;

use crate::command::{must, output};
use crate::licenses;
use browser::Browser;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
/// What the compiler may use, which browsers have had since 2021 (Safari since 2023).
const FEATURES: &str = "-C target-feature=+simd128";
/// The stack that the program has, too.
const STACK: &str = "link-arg=-zstack-size=8388608";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Open the page in Chromium and compare its sample with this program, instead of building it
    #[arg(long, value_name = "PROGRAM")]
    check: Option<PathBuf>,
    /// The browser that opens it
    #[arg(long, value_name = "CHROMIUM", default_value = "chromium", requires = "check")]
    browser: PathBuf,
}

pub(crate) fn run(top: &Path, arguments: &Arguments) -> Result<(), String> {
    let page = top.join("dist").join("landfall.html");
    match &arguments.check {
        Some(program) => check(&page, program, &arguments.browser),
        None => build(top, &page),
    }
}

/// Compiles the program and puts it into the page.
fn build(top: &Path, page: &Path) -> Result<(), String> {
    let metadata = output(Command::new(env!("CARGO")).current_dir(top).args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let target = metadata["target_directory"].as_str().ok_or("cargo names no folder that it builds in")?;
    must(
        Command::new(env!("CARGO"))
            .current_dir(top)
            .args(["rustc", "--package", "landfall-web", "--lib", "--crate-type", "cdylib"])
            .args(["--target", TARGET, "--profile", "bundle", "--", "-C", STACK])
            .env("RUSTFLAGS", FEATURES),
    )?;
    let program = Path::new(target).join(TARGET).join("bundle").join("landfall_web.wasm");
    let packed = program.with_extension("wasm.gz");
    must(Command::new("gzip").args(["-9", "--no-name", "--keep", "--force"]).arg(&program))?;
    let text = output(Command::new("base64").arg("--wrap=0").arg(&packed))?;
    let licences = licenses::list(top, "landfall-web", "this page", &[])?;
    let template = top.join("crates/landfall-web/page.html");
    let template = std::fs::read_to_string(&template).map_err(|e| format!("{}: {e}", template.display()))?;
    let text = filled(&template, &[("{{program}}", &text), ("{{licences}}", &escaped(&licences))])?;
    std::fs::create_dir_all(page.with_file_name("")).map_err(|e| format!("{}: {e}", page.display()))?;
    std::fs::write(page, &text).map_err(|e| format!("{}: {e}", page.display()))?;
    let size = |path: &Path| std::fs::metadata(path).map(|m| m.len() as f64 / 1e6).unwrap_or_default();
    println!(
        "{}: {:.2} MB, of a program of {:.2} MB, {:.2} MB packed",
        page.display(),
        size(page),
        size(&program),
        size(&packed)
    );
    Ok(())
}

/// The template with texts in their places, each of which stands there once.
fn filled(template: &str, texts: &[(&str, &str)]) -> Result<String, String> {
    texts.iter().try_fold(template.to_owned(), |page, (place, text)| match page.matches(place).count() {
        1 => Ok(page.replace(place, text)),
        count => Err(format!("the page has {place} {count} times, and once is right")),
    })
}

/// A text as HTML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What the page shows once its sample is forecast.
const SHOWN: &str = "new Promise(done => {
  const of = id => document.getElementById(id).textContent;
  const look = () => {
    const [csv, error] = [of('csv'), of('error')];
    if (!csv && !error) return setTimeout(look, 50);
    const [rows, lines] = ['#rows tr', '#chart polyline'].map(of => document.querySelectorAll(of).length);
    done({csv, error, status: of('status'), sample: of('made-up').trim() + '\\n', rows, lines});
  };
  document.readyState === 'complete' ? look() : addEventListener('load', look);
})";

/// Forecasts the sample in a browser without a window and by the program.
fn check(page: &Path, program: &Path, browser: &Path) -> Result<(), String> {
    let page = page.canonicalize().map_err(|e| format!("{}: {e}; run cargo xtask page", page.display()))?;
    let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let address = format!("file://{}#sample", page.display());
    let shown = Browser::open(browser, &folder.path().join("profile"), &address)?.value(SHOWN)?;
    let of = |name: &str| shown[name].as_str().unwrap_or_default();
    if !of("error").is_empty() {
        return Err(format!("the page shows no forecast: {}", of("error")));
    }
    let csv = folder.path().join("sample.csv");
    std::fs::write(&csv, of("sample")).map_err(|e| format!("{}: {e}", csv.display()))?;
    let theirs = output(
        Command::new(program)
            .args(["forecast", "--horizon", "12", "--threads", "1", "--device", "cpu", "--data"])
            .arg(&csv),
    )?;
    let distance = distance(of("csv").trim_end(), theirs.trim_end())?;
    println!("the page: {}", of("status"));
    println!("its numbers and the program's are at most {distance:.1e} apart, relative to the program's");
    // The median is a line behind that of the history.
    if shown["rows"] != 12 || shown["lines"] != 2 {
        return Err(format!(
            "the page shows {} rows and {} lines, and 12 and 2 are right",
            shown["rows"], shown["lines"]
        ));
    }
    if distance > MOST { Err(format!("more than {MOST:e}")) } else { Ok(()) }
}

/// Distance of numbers that are rounded from f32 to about seven digits.
const MOST: f64 = 1e-5;

/// The largest relative distance of numbers of two tables; all else is the same.
fn distance(ours: &str, theirs: &str) -> Result<f64, String> {
    let (a, b): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), theirs.lines().collect());
    if a.len() != b.len() {
        return Err(format!("{} lines, and the program has {}", a.len(), b.len()));
    }
    let mut most = 0.0f64;
    for (a, b) in a.iter().zip(&b) {
        let (ours, theirs): (Vec<&str>, Vec<&str>) = (a.split(',').collect(), b.split(',').collect());
        for (x, y) in ours.iter().zip(&theirs) {
            most = match (x.parse::<f64>(), y.parse::<f64>()) {
                (Ok(x), Ok(y)) => most.max((x - y).abs() / y.abs().max(f64::MIN_POSITIVE)),
                _ if x == y => most,
                _ => return Err(format!("{a:?}, and the program has {b:?}")),
            };
        }
        if ours.len() != theirs.len() {
            return Err(format!("{a:?}, and the program has {b:?}"));
        }
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::{distance, escaped, filled};

    #[test]
    fn a_place_is_filled_once() {
        assert_eq!(filled("<a>{{x}}</a>", &[("{{x}}", "1")]).as_deref(), Ok("<a>1</a>"));
        assert!(filled("<a></a>", &[("{{x}}", "1")]).is_err_and(|why| why.contains("{{x}} 0 times")));
        assert!(filled("{{x}}{{x}}", &[("{{x}}", "1")]).is_err());
        let page = include_str!("../../../crates/landfall-web/page.html");
        assert!(filled(page, &[("{{program}}", "p"), ("{{licences}}", &escaped("<l>"))]).is_ok());
    }

    #[test]
    fn tables_that_differ_are_refused() {
        let ours = "day,load\n2024-01-01,2.0\n";
        assert_eq!(distance(ours, ours), Ok(0.0));
        assert_eq!(distance(ours, "day,load\n2024-01-01,1.0\n"), Ok(1.0));
        for theirs in ["day,load\n", "day,load\n2024-01-02,2.0\n", "day,load\n2024-01-01,2.0,3.0\n"] {
            assert!(distance(ours, theirs).is_err(), "{theirs}");
        }
    }
}
