//! Project tasks, run as `cargo xtask TASK`.

mod bundle;
mod campaign;
mod command;
mod http;
mod kernels;
mod licenses;
mod load;
mod page;
mod readme;
mod release;

use clap::{Parser, Subcommand};
use command::must;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Tasks of the project
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run each line of the README's `sh` blocks from the top of the checkout
    Readme {
        /// A line to leave out, as it stands there
        #[arg(long, value_name = "COMMAND")]
        except: Vec<String>,
    },
    /// Compile the CUDA kernels with the run-time compiler of its Python wheel; needs no GPU
    Kernels {
        /// Only modules whose label begins so [default: all]
        label: Option<String>,
        /// For these architectures, such as sm_120a,sm_121a, instead of Hopper alone
        #[arg(long, value_name = "LIST")]
        architectures: Option<String>,
        /// For every architecture
        #[arg(long, conflicts_with_all = ["label", "architectures"])]
        everywhere: bool,
    },
    /// Write docs/ops.md and docs/names.md from the table of ops
    Ops,
    /// Write python/THIRD-PARTY.md, the licences of the crates in the wheel
    Licenses {
        /// Compare the file instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Run the suite of every op in one process, in the orders of ten seeds
    Shuffle {
        /// Arguments of the suite; `-- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// Put test binaries and the programs into bundle/, with a runner for a machine with a GPU
    Bundle {
        /// Test targets to build, or `python` for the Python package and its tests [default: all test targets]
        #[arg(value_name = "TEST")]
        tests: Vec<String>,
    },
    /// Put archives of the program, wheels, their sums and the release note into dist/; publishes nothing
    Release(release::Arguments),
    /// Make dist/landfall.html, a page that forecasts in a browser by itself: docs/platforms.md
    Page(page::Arguments),
    /// Inject random faults into the program and check the results: docs/campaigns.md
    Campaign(campaign::Arguments),
    /// Post a file to a server's /forecast again and again, and print the rate and the times of requests
    Load(load::Arguments),
}

fn main() -> ExitCode {
    let top = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let result = match Arguments::parse().task {
        Task::Readme { except } => readme::run(&top, &except),
        Task::Kernels { label, architectures, everywhere } => {
            let asked = if everywhere { Some("all") } else { architectures.as_deref() };
            kernels::run(&top, label.as_deref(), asked)
        }
        Task::Ops => ops(&top),
        Task::Licenses { check } => licenses::run(&top, check),
        Task::Shuffle { arguments } => shuffle(&top, &arguments),
        Task::Bundle { tests } => bundle::run(&top, &tests),
        Task::Release(arguments) => release::run(&top, &arguments),
        Task::Page(arguments) => page::run(&top, &arguments),
        Task::Campaign(arguments) => return campaign::run(&arguments),
        Task::Load(arguments) => return load::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the tables of ops in the documentation.
fn ops(top: &Path) -> Result<(), String> {
    let test = ["test", "--package", "landfall-suite", "--lib", "--", "--exact", "support::support_table"];
    must(Command::new(env!("CARGO")).current_dir(top).args(test).env("LANDFALL_BLESS", "1"))
}

/// Runs the generated suite in shuffled orders.
fn shuffle(top: &Path, arguments: &[String]) -> Result<(), String> {
    let seeds =
        if arguments.iter().any(|arg| arg.starts_with("--seed")) { &[][..] } else { &["--seeds", "10"] };
    let test = ["test", "--package", "landfall", "--test", "suite", "--"];
    must(Command::new(env!("CARGO")).current_dir(top).args(test).args(seeds).args(arguments))
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};

    #[test]
    fn help_is_no_error() {
        Arguments::command().debug_assert();
        let tasks: Vec<String> =
            Arguments::command().get_subcommands().map(|task| task.get_name().to_owned()).collect();
        for words in tasks.iter().map(|task| vec!["xtask", task, "--help"]).chain([vec!["xtask", "--help"]]) {
            let help = Arguments::try_parse_from(&words).err().expect("help");
            assert_eq!((help.kind(), help.exit_code()), (ErrorKind::DisplayHelp, 0), "{words:?}: {help}");
        }
    }

    #[test]
    fn command_lines_of_ci_and_documents_are_taken() {
        for line in [
            "readme",
            "readme --except a --except b",
            "kernels",
            "kernels softmax",
            "kernels --everywhere",
            "kernels --architectures sm_120a,sm_121a",
            "ops",
            "licenses --check",
            "shuffle",
            "shuffle --seed 3 softmax",
            "shuffle -- --help",
            "bundle suite python",
            "release",
            "release x86_64-unknown-linux-musl --no-wheels",
            "release --check",
            "page",
            "page --check target/release/landfall --browser chromium",
            "campaign kill --count 3 --seed 4 --program p",
            "campaign short --program p",
            "campaign --seed 4 short",
            "campaign fuzz csv tune-cache --seed 1 --case 2",
            "campaign judge",
            "campaign judge programs --count 9",
            "load 127.0.0.1:8080 request.json --connections 4 --seconds 2",
        ] {
            let words = line.split(' ');
            assert!(Arguments::try_parse_from(["xtask"].into_iter().chain(words)).is_ok(), "{line}");
        }
    }

    #[test]
    fn arguments_that_a_task_would_not_read_are_refused() {
        for line in [
            "",
            "ops all",
            "kernels softmax --everywhere",
            "kernels --everywhere --architectures sm_80",
            "release armv7-unknown-linux-gnueabihf",
            "release --check --no-wheels",
            "page --browser chromium",
            "campaign",
            "campaign kill --case 3",
            "campaign fuzz pickle",
            "load 127.0.0.1:8080",
            "load 127.0.0.1:8080 f --connections 0",
        ] {
            let words = line.split(' ').filter(|word| !word.is_empty());
            let error = Arguments::try_parse_from(["xtask"].into_iter().chain(words)).err();
            assert_eq!(error.map(|e| e.exit_code()), Some(2), "{line}");
        }
    }
}
