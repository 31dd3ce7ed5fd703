//! Files, names and numbers of somebody else: nothing is written where they lead, nothing is obeyed, and what cannot be is refused in
//! words.
#![cfg(target_os = "linux")]

mod program;

use program::{Folder, csv};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TRAIN: &str = "train --data d.csv --context 16 --horizon 4 --threads 1 --device cpu --max-steps 2 --preset dlinear --out run";

fn trained(text: &str) -> Folder {
    let f = Folder::new();
    f.write("d.csv", text);
    f.runs(TRAIN);
    f
}

#[test]
fn links_in_a_run_directory_are_not_written_through() {
    let f = trained(&csv(300));
    f.write("victim", "my notes");
    let link = |name: &str| {
        std::os::unix::fs::symlink("../victim", f.path().join("run").join(name)).expect("planted")
    };
    for name in [
        "report.html.tmp",
        "config.toml.tmp",
        "checkpoint.safetensors.tmp",
        "best.safetensors.tmp",
        "report.html",
    ] {
        link(name);
    }
    f.runs("report run --device cpu");
    f.runs("train --resume run --max-steps 4");
    assert_eq!(f.read("victim"), "my notes");
    assert!(f.read("run/report.html").starts_with("<!doctype html>"));
    // Files that are appended to are refused where they are links.
    for (name, victim) in [("metrics.jsonl", ""), ("lock", "my notes")] {
        f.write("victim", victim);
        std::fs::remove_file(f.path().join("run").join(name)).expect("removed");
        link(name);
        let ran = f.run("train --resume run --max-steps 6");
        assert_ne!(ran.code, Some(0), "{name}");
        assert!(ran.err.contains("it is a link to another place, and no file"), "{}", ran.err);
        assert_eq!(f.read("victim"), victim);
        std::fs::remove_file(f.path().join("run").join(name)).expect("removed");
        f.write(&format!("run/{name}"), "");
    }
}

#[test]
fn a_killed_evaluation_leaves_no_half_file_under_its_name() {
    let f = Folder::new();
    let mut text = "id,t,y\n".to_owned();
    for series in 0..800 {
        for row in 0..60 {
            text += &format!(
                "s{series},{row},{:.3}\n",
                (row as f64 / 3.0 + series as f64).sin() + (series % 7) as f64
            );
        }
    }
    f.write("d.csv", &text);
    f.runs(&format!("{TRAIN} --series-id id --columns y"));
    let mut command = f.command("evaluate run --segment train --device cpu --threads 1 --predictions p.csv");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let draft = || f.names().into_iter().find(|name| name.starts_with(".p.csv."));
    let grown = |name: String| std::fs::metadata(f.path().join(name)).is_ok_and(|m| m.len() > 0);
    let begun = Instant::now();
    while !draft().is_some_and(grown) && child.try_wait().expect("its state").is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", f.names());
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed");
    child.wait().expect("its end");
    assert!(!f.path().join("p.csv").exists(), "{:?}", f.names());
    f.runs("evaluate run --segment train --device cpu --predictions p.csv");
    assert!(f.read("p.csv").ends_with('\n'));
}

#[test]
fn a_training_that_diverges_says_so_and_saves_nothing_unreadable() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    for model in ["--model patchtst", "--preset patchtst-42 --patch 8 --stride 4"] {
        let ran = f.run(&format!(
            "train --data d.csv --context 16 --horizon 4 --max-steps 12 --threads 1 --device cpu {model} --lr 1e6 --out run"
        ));
        assert_eq!(ran.code, Some(1), "{model}\n{}\n{}", ran.out, ran.err);
        assert!(!ran.out.contains("Forecast with"), "{}", ran.out);
        assert!(
            ran.err.contains("diverged") || ran.err.contains("the state is as before that step"),
            "{}",
            ran.err
        );
        // What is there can be read.
        let resumed = f.run("train --resume run --max-steps 1");
        assert!(!resumed.err.contains("weights must be finite"), "{}", resumed.err);
        std::fs::remove_dir_all(f.path().join("run")).expect("removed");
    }
}

#[test]
fn no_escape_of_a_name_reaches_a_terminal() {
    let text = csv(300).replacen("load", "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{9b}2J", 1);
    let f = Folder::new();
    f.write("d.csv", &text);
    let mut said = String::new();
    for words in [
        TRAIN,
        "evaluate run",
        "report run",
        "backtest run --windows 2",
        "evaluate run --data no\u{1b}[2J.csv",
        "forecast run --json",
    ] {
        let ran = f.run(words);
        said += &(ran.out + &ran.err);
    }
    let obeyed = said.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(obeyed, None, "{said:?}");
    assert!(said.contains("\\u{1b}]0;owned"), "{said}");
    assert!(!f.read("run/report.html").contains('\u{1b}'));
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let f = trained(&csv(300));
    assert!(Command::new("mkfifo").arg(f.path().join("pipe")).status().expect("mkfifo").success());
    for (path, what) in [("pipe", "a pipe"), ("/dev/zero", "a device"), ("run", "a folder")] {
        for words in [format!("train --data {path} --horizon 4"), format!("forecast run --data {path}")] {
            let begun = Instant::now();
            let said = f.refused(&words);
            assert!(said.contains(&format!("it is {what}, and no file")), "{said}");
            assert!(begun.elapsed() < Duration::from_secs(20));
        }
    }
    f.write("nul.csv", vec![0; 1 << 20]);
    assert!(
        f.refused("train --data nul.csv --horizon 4").starts_with("nul.csv:1: a byte 0, which no text has")
    );
}

#[test]
fn sizes_that_no_machine_has_are_refused_in_words() {
    let f = trained(&csv(300));
    let most = "it must be at most 16777216";
    for flag in ["--horizon 100000000", "--context 18446744073709551615", "--batch 1000000000000"] {
        let said = f.refused(&format!("train --data d.csv {flag}"));
        assert!(said.starts_with(flag.split(' ').next().expect("a flag")) && said.ends_with(most), "{said}");
    }
    let config = f.read("run/config.toml");
    let of = |size: &str| {
        let lines = config.lines().map(|line| {
            if line.starts_with("horizon = ") { format!("horizon = {size}") } else { line.to_owned() }
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    f.write("run/config.toml", of("100000000"));
    assert!(f.refused("forecast run --device cpu").ends_with(most));
    // A size that is allowed and has no room here.
    f.write("run/config.toml", of("16000000"));
    let sh = |words: &str| {
        let mut command = Command::new("sh");
        command.current_dir(f.path()).args(["-c", &format!("ulimit -v 1500000; exec \"$0\" {words}")]);
        command.arg(env!("CARGO_BIN_EXE_landfall")).stdin(Stdio::null()).output().expect("it starts")
    };
    for words in ["forecast run --device cpu", "plan --preset dlinear --horizon 16000000"] {
        let ran = sh(words);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(
            said.lines().last().is_some_and(|l| l.starts_with("error: ") && l.contains("allocation")),
            "{said}"
        );
        assert_eq!(ran.status.code(), Some(2), "{said}");
    }
    let ranks = [
        ("RANK", "0"),
        ("LOCAL_RANK", "0"),
        ("WORLD_SIZE", "100000000"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "29511"),
    ];
    let ran = f.command("train --data d.csv --horizon 4").envs(ranks).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.code() == Some(2) && said.contains("at most 65536 ranks train together"), "{said}");
}

#[test]
fn a_small_stack_is_enough() {
    let f = trained(&csv(300));
    for words in ["forecast run --device cpu", "train --help", "no-such-command"] {
        let ran = Command::new("sh")
            .current_dir(f.path())
            .args(["-c", &format!("ulimit -s 64; exec \"$0\" {words}"), env!("CARGO_BIN_EXE_landfall")])
            .output()
            .expect("it starts");
        assert!(matches!(ran.status.code(), Some(0 | 2)), "{words}: {:?}", ran.status);
    }
}

#[test]
fn names_that_a_spreadsheet_computes_are_marked_as_text() {
    let f = Folder::new();
    let mut text = "shop,date,=load\n".to_owned();
    for shop in ["@north", "-5", "=1+1"] {
        for line in csv(100).lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            text += &format!("{shop},{},{}\n", cells[0], cells[1]);
        }
    }
    f.write("d.csv", &text);
    f.runs(&format!("{TRAIN} --series-id shop"));
    for words in ["forecast run --out f.csv", "evaluate run --predictions p.csv"] {
        f.runs(words);
    }
    for name in ["f.csv", "p.csv"] {
        let written = f.read(name);
        let names: std::collections::BTreeSet<&str> =
            written.lines().skip(1).map(|line| line.split(',').next().expect("a name")).collect();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["'=1+1", "'@north", "-5"], "{name}");
        assert!(written.lines().next().expect("a header").contains(",'=load"), "{written}");
    }
    // A backtest that goes on finds its own names.
    f.runs("backtest run --windows 2 --predictions b.csv");
    let whole = f.read("b.csv");
    let half = whole.lines().count() / 2;
    f.write("b.csv", whole.lines().take(half).map(|line| format!("{line}\n")).collect::<String>());
    f.runs("backtest run --windows 2 --predictions b.csv --resume");
    assert_eq!(f.read("b.csv"), whole);
}
