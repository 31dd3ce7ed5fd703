//! Several processes that train one run, as torchrun and Slurm start them.

mod program;

use program::{Folder, Ran, csv, steps};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine to start a process, short for a test.
const LIMIT: u64 = 30;

/// A run small enough for tests.
const SMALL: &str = "train --preset patchtst-42 --data d.csv --context 32 --horizon 8 --batch 16";

/// A port that nobody listens on.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}

/// The variables of torchrun.
fn torchrun(command: &mut Command, rank: usize, size: usize, port: u16) {
    for name in ["SLURM_STEP_ID", "TORCHELASTIC_USE_AGENT_STORE", "LANDFALL_PORT", "LANDFALL_SECRET"] {
        command.env_remove(name);
    }
    command
        .env("RANK", rank.to_string())
        .env("LOCAL_RANK", rank.to_string())
        .env("WORLD_SIZE", size.to_string())
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", port.to_string())
        .env("TORCHELASTIC_RUN_ID", "a test");
}

/// The variables of a step of Slurm on this machine.
fn slurm(command: &mut Command, rank: usize, size: usize, port: u16) {
    for name in ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LANDFALL_SECRET"] {
        command.env_remove(name);
    }
    command
        .env("SLURM_JOB_ID", "4711")
        .env("SLURM_STEP_ID", "0")
        .env("SLURM_PROCID", rank.to_string())
        .env("SLURM_LOCALID", rank.to_string())
        .env("SLURM_NTASKS", size.to_string())
        .env("SLURM_JOB_NODELIST", "localhost")
        .env("SLURM_STEP_NODELIST", "localhost")
        .env_remove("MASTER_ADDR")
        .env("MASTER_PORT", port.to_string());
}

type Variables = fn(&mut Command, usize, usize, u16);

/// Starts a process for each line of arguments.
fn start(f: &Folder, launcher: Variables, lines: &[String]) -> Vec<Child> {
    let port = port();
    let each = lines.iter().enumerate().map(|(rank, line)| {
        let mut command = f.command(&format!("{line} --device cpu --threads 1 --rank-timeout {LIMIT}"));
        launcher(&mut command, rank, lines.len(), port);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process")
    });
    each.collect()
}

/// What became of each process.
fn end(all: Vec<Child>) -> Vec<Ran> {
    all.into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("an output");
            let text = |bytes| String::from_utf8(bytes).expect("text");
            Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
        })
        .collect()
}

fn together(f: &Folder, launcher: Variables, ranks: usize, line: &str) -> Vec<Ran> {
    end(start(f, launcher, &vec![line.to_owned(); ranks]))
}

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(400));
    f
}

/// The loss of each step of a run.
fn losses(f: &Folder, run: &str) -> Vec<f64> {
    let text = f.read(&format!("{run}/metrics.jsonl"));
    let line = |l: &&str| serde_json::from_str::<serde_json::Value>(l).expect("JSON")["loss"].as_f64();
    steps(&text).iter().filter_map(line).collect()
}

/// Two processes write the run of one that cuts its batch in two, and the first one alone speaks.
#[test]
fn two_processes_train_the_run_of_one() {
    let f = folder();
    let line = format!("{SMALL} --epochs 2");
    f.runs(&format!("{line} --device cpu --threads 1 --accumulate 2 --out one"));
    for (launcher, out) in [(torchrun as Variables, "two"), (slurm, "three")] {
        let ran = together(&f, launcher, 2, &format!("{line} --out {out}"));
        assert!(ran.iter().all(|r| r.code == Some(0)), "{ran:?}");
        assert!(ran[0].out.starts_with("2 ranks train together\n"), "{}", ran[0].out);
        assert_eq!(ran[1].out, "");
        let (one, two) = (f.read("one/metrics.jsonl"), f.read(&format!("{out}/metrics.jsonl")));
        assert!(steps(&one).len() > 10);
        assert_eq!(steps(&two), steps(&one));
        assert_eq!(
            f.names().into_iter().filter(|name| name.starts_with("run")).count(),
            0,
            "no other run directory"
        );
    }
    // What was trained together forecasts, and goes on with as many processes as one that was not.
    f.runs("forecast two");
    f.runs("train --resume one --epochs 3");
    let ran = together(&f, torchrun, 2, "train --resume two --epochs 3");
    assert!(ran.iter().all(|r| r.code == Some(0)), "{ran:?}");
    assert_eq!(steps(&f.read("two/metrics.jsonl")), steps(&f.read("one/metrics.jsonl")));
    // With another number of them dropout and the statistics of a batch are others, as with another --accumulate.
    let ran = together(&f, slurm, 4, "train --resume three --epochs 3");
    assert!(ran.iter().all(|r| r.code == Some(0)), "{ran:?}");
    let (one, three) = (losses(&f, "one"), losses(&f, "three"));
    assert_eq!(one.len(), three.len());
    assert!(one.iter().zip(&three).all(|(a, b)| (a - b).abs() < 0.2 * a), "{one:?} {three:?}");
}

/// Processes that share out the optimizer's state write the run of those that do not, and any number of them goes on from it, with and
/// without the choice.
#[test]
fn processes_share_out_the_optimizers_state() {
    let f = folder();
    let both = |ranks: usize, whole: &str, shared: &str| {
        for line in [whole, shared] {
            let ran = together(&f, torchrun, ranks, line);
            assert!(ran.iter().all(|r| r.code == Some(0)), "{ran:?}");
        }
        let (whole, shared) = (f.read("whole/metrics.jsonl"), f.read("shared/metrics.jsonl"));
        assert_eq!(steps(&shared), steps(&whole));
        steps(&whole).len()
    };
    let line = format!("{SMALL} --epochs 1 --out");
    let first = both(2, &format!("{line} whole"), &format!("{line} shared --shard-optimizer"));
    let shares = |run: &str| f.read(&format!("{run}/config.toml")).contains("\nshard-optimizer = true\n");
    assert!(shares("shared") && !shares("whole"));
    let resumed = |run: &str, epochs, more: &str| format!("train --resume {run} --epochs {epochs} {more}");
    let to = |epochs, whole: &str, shared: &str| {
        (resumed("whole", epochs, whole), resumed("shared", epochs, shared))
    };
    let (whole, shared) = to(2, "--shard-optimizer", "--shard-optimizer=false");
    assert_eq!(both(2, &whole, &shared), 2 * first);
    assert!(shares("whole") && !shares("shared"));
    let (whole, shared) = to(3, "", "");
    assert_eq!(both(4, &whole, &shared), 3 * first);
    for run in ["whole", "shared"] {
        f.runs(&format!("train --resume {run} --epochs 4 --device cpu --threads 1"));
    }
    assert_eq!(losses(&f, "whole"), losses(&f, "shared"));
}

/// With the statistics of all ranks' rows two processes train as one does.
#[test]
fn processes_synchronise_batch_norm() {
    let f = folder();
    let line = format!("{SMALL} --dropout 0 --epochs 1 --out");
    f.runs(&format!("{line} one --device cpu --threads 1"));
    for (run, more) in [("synced", "--sync-batch-norm"), ("apart", "")] {
        let ran = together(&f, torchrun, 2, &format!("{line} {run} {more}"));
        assert!(ran.iter().all(|r| r.code == Some(0)), "{ran:?}");
    }
    let one = losses(&f, "one");
    let off = |run: &str| {
        let of = losses(&f, run);
        assert_eq!(of.len(), one.len());
        of.iter().zip(&one).map(|(a, b)| (a - b).abs() / b).fold(0.0, f64::max)
    };
    assert!(off("synced") < 1e-3 && off("apart") > 1e-3, "{} {}", off("synced"), off("apart"));
    assert!(f.read("synced/config.toml").contains("\nsync-batch-norm = true\n"));
}

#[test]
fn ranks_that_differ_are_told_what_differs() {
    let f = folder();
    let line = |more: &str| format!("{SMALL} --max-steps 4 --out run {more}");
    for (more, named) in [("--seed 7", "seed = "), ("--lr 0.5", "lr = ")] {
        let ran = end(start(&f, torchrun, &[line(""), line(more)]));
        for r in &ran {
            assert_eq!(r.code, Some(2), "{ran:?}");
            assert!(
                r.err.contains("the configurations of the ranks differ") && r.err.contains(named),
                "{}",
                r.err
            );
        }
        assert!(!f.path().join("run").exists(), "nothing is written before ranks agree");
    }
    std::fs::create_dir(f.path().join("other")).expect("a folder");
    f.write("other/d.csv", csv(401));
    let ran = end(start(&f, torchrun, &[line(""), line("").replace("d.csv", "other/d.csv")]));
    assert!(ran.iter().all(|r| r.err.contains("rank 0 has \"rows = 400\"") && r.code == Some(2)), "{ran:?}");
}

/// A rank that is killed ends the others with its number, and leaves a checkpoint that any number of ranks goes on from.
#[test]
fn a_rank_that_is_killed_ends_all() {
    let f = folder();
    let line = format!("{SMALL} --epochs 2000 --checkpoint-every 5 --log-every 5 --out run");
    let mut all = start(&f, torchrun, &vec![line; 4]);
    let began = Instant::now();
    while !f.path().join("run/metrics.jsonl").exists() || steps(&f.read("run/metrics.jsonl")).len() < 20 {
        assert!(began.elapsed() < Duration::from_secs(60), "no steps");
        std::thread::sleep(Duration::from_millis(20));
    }
    all[2].kill().expect("killed");
    let killed = Instant::now();
    let ran = end(all);
    assert!(killed.elapsed() < Duration::from_secs(LIMIT), "{:?}", killed.elapsed());
    for r in [&ran[0], &ran[1], &ran[3]] {
        assert_eq!(r.code, Some(1), "{ran:?}");
        assert!(r.err.contains("rank 2 ended before"), "{}", r.err);
    }
    let done = steps(&f.read("run/metrics.jsonl")).len();
    let resumed = together(&f, torchrun, 2, &format!("train --resume run --max-steps {}", done + 8));
    assert!(resumed.iter().all(|r| r.code == Some(0)), "{resumed:?}");
}

/// A signal to one process stops all after the same step, with a checkpoint.
#[cfg(unix)]
#[test]
fn a_signal_to_one_rank_stops_all() {
    let f = folder();
    let line = format!("{SMALL} --epochs 2000 --log-every 5 --out run");
    let all = start(&f, torchrun, &vec![line; 2]);
    let began = Instant::now();
    while !f.path().join("run/metrics.jsonl").exists() || steps(&f.read("run/metrics.jsonl")).len() < 10 {
        assert!(began.elapsed() < Duration::from_secs(60), "no steps");
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = Command::new("kill").args(["-TERM", &all[1].id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let ran = end(all);
    let step = |r: &Ran| {
        let rest = r.err.split_once("interrupted after step ").map(|(_, rest)| rest.to_owned());
        rest.and_then(|rest| rest.split(';').next().map(str::to_owned)).unwrap_or_else(|| panic!("{r:?}"))
    };
    assert_eq!(step(&ran[0]), step(&ran[1]));
    assert_eq!((ran[0].code, ran[1].code), (Some(130), Some(143)));
    f.runs("forecast run --weights last");
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let f = folder();
    let mut command = f.command(&format!("{SMALL} --max-steps 2 --device cpu --rank-timeout 1"));
    torchrun(&mut command, 0, 3, port());
    let output = command.output().expect("an output");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0));
    assert!(said.contains("ranks 1, 2") && said.lines().count() == 1, "{said}");
}

#[test]
fn half_of_a_launch_is_refused() {
    let f = folder();
    let mut command = f.command(&format!("{SMALL} --max-steps 2"));
    torchrun(&mut command, 0, 2, port());
    command.env_remove("MASTER_ADDR");
    let output = command.output().expect("an output");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("MASTER_ADDR") && said.lines().count() == 1, "{said}");
    let mut command = f.command(&format!("{SMALL} --max-steps 2 --seeds 1,2"));
    torchrun(&mut command, 0, 2, port());
    let output = command.output().expect("an output");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("start one launch for each seed"), "{said}");
}
