//! Whole runs: what they write, resuming, interrupting, forecasts.

mod program;

use program::{Folder, SMALL, csv, native, steps};
use serde_json::Value;
use std::time::{Duration, Instant};

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f
}

fn bytes(f: &Folder, name: &str) -> Vec<u8> {
    std::fs::read(f.path().join(name)).expect(name)
}

/// The tensors of a safetensors file: everything behind its header, whose metadata names the run's settings.
fn tensors(f: &Folder, name: &str) -> Vec<u8> {
    let all = bytes(f, name);
    let length = u64::from_le_bytes(all[..8].try_into().expect("eight bytes")) as usize;
    all[8 + length..].to_vec()
}

#[test]
fn a_run_leaves_what_it_promises() {
    let f = folder();
    let ran = f.runs(&format!("{SMALL} --epochs 2 --json --out run"));
    assert_eq!(ran.err, "");
    let object = ran.json();
    for key in ["mse", "mae", "mse_drop_last", "mae_drop_last"] {
        assert!(object[key].as_f64().is_some_and(f64::is_finite), "{key} in {object}");
    }
    assert_eq!((object["windows"].as_u64(), object["steps"].as_u64()), (Some(53), Some(20)));
    assert!(object["last-value"]["mse"].is_f64() && object["seasonal-naive"]["mae"].is_f64(), "{object}");
    assert!(ran.out.contains("Run saved to run\n"), "{}", ran.out);
    let mut names = Folder::names_in(&f.path().join("run"));
    names.sort();
    let events =
        names.iter().position(|name| name.starts_with("events.out.tfevents.")).expect("an event file");
    names.remove(events);
    assert_eq!(
        names,
        ["best.safetensors", "checkpoint.safetensors", "config.toml", "lock", "metrics.jsonl", "plan.json"]
    );

    let metrics = f.read("run/metrics.jsonl");
    let lines: Vec<Value> = metrics.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let logged: Vec<&Value> = lines.iter().filter(|l| l.get("loss").is_some()).collect();
    assert_eq!(
        logged.iter().map(|l| l["step"].as_u64().expect("a step")).collect::<Vec<_>>(),
        (1..=20).collect::<Vec<_>>()
    );
    assert_eq!((&logged[9]["epoch"], &logged[10]["epoch"]), (&Value::from(1), &Value::from(2)));
    assert!(logged.iter().all(|l| l["grad_norm"].is_f64() && l["lr"].is_f64()));
    let splits: Vec<&str> = lines.iter().filter_map(|l| l["split"].as_str()).collect();
    assert_eq!(splits, ["validation", "validation", "test"]);
    let test = lines.last().expect("lines");
    assert_eq!(test["mse"], object["mse"]);
    let columns = test["columns"].as_array().expect("columns");
    assert_eq!(
        columns.iter().map(|c| c["name"].as_str().expect("a name")).collect::<Vec<_>>(),
        ["load", "wind"]
    );

    // The stored run scores the same, from its own file or from the same file given again.
    let evaluated = f.runs("evaluate run --json").json();
    assert_eq!(evaluated["mse"], object["mse"]);
    assert_eq!(f.runs("evaluate run --data d.csv --threads 1 --json").json(), evaluated);
    for key in ["mae", "rmse", "mase", "smape", "r2"] {
        assert!(evaluated[key].is_f64(), "{key}: {evaluated}");
    }
    assert!(evaluated.get("series").is_none(), "one series has no table of series: {evaluated}");

    // Its settings start the same run again.
    f.runs("train --config run/config.toml --out again");
    assert_eq!(f.read("again/metrics.jsonl"), metrics);
    assert_eq!(tensors(&f, "again/checkpoint.safetensors"), tensors(&f, "run/checkpoint.safetensors"));
    assert_eq!(f.read("again/config.toml"), f.read("run/config.toml"));
}

#[test]
fn a_resumed_run_is_the_straight_one() {
    let f = folder();
    f.runs(&format!("{SMALL} --max-steps 12 --out straight"));
    f.runs(&format!("{SMALL} --max-steps 7 --out parts"));
    let before = f.read("parts/config.toml");
    assert_eq!(
        f.refused("train --resume parts --max-steps 3"),
        "parts has done 7 steps, more than the 3 that are asked for; give a larger --epochs or --max-steps to go on"
    );
    assert_eq!(f.read("parts/config.toml"), before);
    let ran = f.runs("train --resume parts --max-steps 12 --threads 1");
    assert!(ran.out.contains("seasonal period: 24 (from the settings)"), "{}", ran.out);
    assert!(ran.out.contains("resuming parts after step 7"), "{}", ran.out);
    let (straight, parts) = (f.read("straight/metrics.jsonl"), f.read("parts/metrics.jsonl"));
    assert_eq!(steps(&straight).len(), 12);
    assert_eq!(steps(&straight), steps(&parts));
    assert_eq!(tensors(&f, "straight/checkpoint.safetensors"), tensors(&f, "parts/checkpoint.safetensors"));
    assert_eq!(straight.lines().last(), parts.lines().last());
    assert!(f.read("parts/config.toml").contains("max-steps = 12"));
}

#[test]
fn every_step_is_recorded_and_some_are_shown() {
    let f = folder();
    let quiet = SMALL.replace("--log-every 1", "--log-every 5");
    let ran = f.runs(&format!("{quiet} --max-steps 12 --out quiet"));
    f.runs(&format!("{SMALL} --max-steps 12 --out loud"));
    let (quiet, loud) = (f.read("quiet/metrics.jsonl"), f.read("loud/metrics.jsonl"));
    assert_eq!(steps(&quiet).len(), 12);
    assert_eq!(steps(&quiet), steps(&loud));
    let shown: Vec<&str> =
        ran.out.lines().filter_map(|l| l.strip_prefix("step ")?.split('/').next()).collect();
    assert_eq!(shown, ["1", "5", "10", "12"], "{}", ran.out);
}

/// Waits until a run has logged so many lines.
fn logs(f: &Folder, run: &str, lines: usize) {
    let start = Instant::now();
    let path = f.path().join(run).join("metrics.jsonl");
    while !std::fs::read_to_string(&path).is_ok_and(|t| t.lines().count() >= lines) {
        assert!(start.elapsed() < Duration::from_secs(60), "no step in a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_run_goes_on_from_its_last_checkpoint() {
    let f = folder();
    f.runs(&format!("{SMALL} --max-steps 40 --out straight"));
    let mut child = f.command(&format!("{SMALL} --max-steps 40 --checkpoint-every 7 --out run"));
    let mut child = child.stdout(std::process::Stdio::null()).spawn().expect("it starts");
    logs(&f, "run", 15);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    let ran = f.runs("train --resume run");
    let step: usize = ran.out.split_whitespace().nth(4).expect("a step").parse().expect("a number");
    assert!(step >= 14 && step.is_multiple_of(7), "{}", ran.out);
    assert_eq!(f.read("run/metrics.jsonl"), f.read("straight/metrics.jsonl"));
    for name in ["checkpoint.safetensors", "best.safetensors"] {
        assert_eq!(tensors(&f, &format!("run/{name}")), tensors(&f, &format!("straight/{name}")));
    }
    assert_eq!(
        f.refused("train --resume run"),
        "run is complete with 40 of 40 steps; give a larger --epochs or --max-steps to go on"
    );

    // Killed before the last evaluation was written: that is made up for.
    let metrics = f.read("run/metrics.jsonl");
    f.write("run/metrics.jsonl", metrics.lines().take(40).map(|l| format!("{l}\n")).collect::<String>());
    std::fs::remove_file(f.path().join("run/best.safetensors")).expect("removed");
    f.runs("train --resume run");
    assert_eq!(f.read("run/metrics.jsonl"), metrics);
    assert_eq!(tensors(&f, "run/best.safetensors"), tensors(&f, "straight/best.safetensors"));
}

#[test]
fn a_run_that_died_before_its_first_checkpoint_starts_over() {
    let f = folder();
    f.runs(&format!("{SMALL} --max-steps 3 --out run"));
    let metrics = f.read("run/metrics.jsonl");
    // What is there before the first checkpoint.
    f.write("run/metrics.jsonl", "");
    for name in ["best.safetensors", "checkpoint.safetensors"] {
        std::fs::remove_file(f.path().join("run").join(name)).expect("removed");
    }
    assert_eq!(
        f.refused("train --resume run"),
        format!(
            "run has no checkpoint yet: its run ended before the first one; start it again with: landfall train --config \
             {} --out run",
            native("run/config.toml")
        )
    );
    f.write("run/notes.txt", "mine");
    assert!(
        f.refused("train --config run/config.toml --out run")
            .starts_with("the run directory run already exists")
    );
    std::fs::remove_file(f.path().join("run/notes.txt")).expect("removed");
    f.runs("train --config run/config.toml --out run");
    assert_eq!(f.read("run/metrics.jsonl"), metrics);
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let f = folder();
    let straight = f.runs(&format!("{SMALL} --max-steps 40 --out straight"));
    let mut child = f.command(&format!("{SMALL} --max-steps 40000 --out run"));
    let child = child
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    logs(&f, "run", 3);
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let done = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(done.stderr).expect("UTF-8");
    assert_eq!(done.status.code(), Some(130), "{said}");
    let step: usize =
        said.split_whitespace().nth(3).expect("a step").trim_end_matches(';').parse().expect("a number");
    assert_eq!(
        said.trim_end(),
        format!("interrupted after step {step}; checkpoint saved; resume with: landfall train --resume run")
    );
    let total = (step + 2).max(40);
    f.runs(&format!("train --resume run --max-steps {total}"));
    let (a, b) = (f.read("straight/metrics.jsonl"), f.read("run/metrics.jsonl"));
    assert_eq!(steps(&a)[..], steps(&b)[..40], "{}", straight.out);
    assert_eq!(steps(&b).len(), total);
}

#[test]
fn a_loss_that_is_not_finite_stops_the_run() {
    let f = folder();
    // One update at such a rate puts every weight out of range.
    let ran = f.run(&format!("{SMALL} --schedule constant --lr 1e30 --epochs 9 --out run"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(
        ran.err.starts_with("error: step ") && ran.err.contains(" became non-finite (first at element "),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("; the state is as before that step"), "{}", ran.err);
}

#[test]
fn a_forecast_goes_on_where_the_data_ends() {
    let f = folder();
    f.runs(&format!("{SMALL} --epochs 4 --lr 0.003 --schedule constant --out run"));
    f.runs("forecast run --out f.csv");
    let text = f.read("f.csv");
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(lines[0], ["date", "load", "wind"]);
    assert_eq!(lines.len(), 9);
    // 300 hours end on the 13th at 11:00.
    assert_eq!((lines[1][0], lines[8][0]), ("2021-01-13 12:00:00", "2021-01-13 19:00:00"));
    for row in &lines[1..] {
        let (load, wind): (f64, f64) = (row[1].parse().expect("a number"), row[2].parse().expect("a number"));
        assert!((30.0..70.0).contains(&load) && (0.0..6.0).contains(&wind), "{row:?}");
    }
    let object = f.runs("forecast run --json").json();
    assert_eq!(object["values"][1].as_array().expect("values").len(), 8);
    assert_eq!(object["values"][0][0].as_f64().expect("a number").to_string(), lines[1][1]);
    assert_eq!(f.runs("forecast run").out, text);

    // Without even dates the rows are numbered, and a context is all it needs; `;` and a byte-order mark are read.
    let rows: String =
        csv(32).lines().map(|l| l.split_once(',').expect("cells").1.replace(',', ";") + "\r\n").collect();
    f.write("undated.csv", format!("\u{feff}{rows}"));
    let undated = f.runs("forecast run --data undated.csv");
    assert!(undated.out.starts_with("step,load,wind\n1,"), "{}", undated.out);
    let note = "note: undated.csv: no column `date`, where the run had dates; rows are counted\n";
    assert_eq!(undated.notes(), note);
    f.write("renamed.csv", csv(40).replacen("date,", "ds,", 1));
    let renamed = f.runs("forecast run --data renamed.csv");
    assert_eq!(renamed.notes(), "note: no column `date`, where the run had dates: those of `ds` are read\n");
    assert!(renamed.out.starts_with("ds,load,wind\n2021-01-02 16:00:00,"), "{}", renamed.out);
    f.write("gap.csv", csv(40).replace("2021-01-02 10:", "2021-01-02 10:30:").replace(":30:00:00", ":30:00"));
    let gap = f.runs("forecast run --data gap.csv");
    assert!(gap.err.contains("note: the dates cannot be continued: irregular"), "{}", gap.err);
    assert!(gap.out.starts_with("step,load,wind\n1,"), "{}", gap.out);
}

#[test]
fn missing_values_are_filled_and_said() {
    let f = folder();
    let lines: Vec<String> = csv(300).lines().map(str::to_owned).collect();
    let holes = lines.iter().enumerate().map(|(i, l)| match i {
        50 => l.rsplit_once(',').expect("cells").0.to_owned() + ",\n",
        _ => format!("{l}\n"),
    });
    f.write("d.csv", holes.collect::<String>());
    let ran = f.runs(&format!("{SMALL} --max-steps 1 --out found"));
    let note = "  note: 1 missing value interpolated between the values on both sides, so a filled row knows of the next value: \
                wind (1)\n";
    assert!(ran.out.contains(note), "{}", ran.out);
    f.runs(&format!("{SMALL} --max-steps 1 --fill linear --out given"));
    assert_eq!(f.runs("evaluate given").out.replace("given", "found"), f.runs("evaluate found").out);
}

#[test]
fn windows_with_labels_are_learnt() {
    let f = Folder::new();
    let words = "train --model window-regressor --synthetic walk --samples 1000 --channels 5 --epochs 3 --log-every 1 --json";
    let ran = f.runs(words);
    let metrics = f.read("runs/window-regressor-1/metrics.jsonl");
    let loss = |l: &str| serde_json::from_str::<Value>(l).expect("JSON")["loss"].as_f64().expect("a loss");
    let losses: Vec<f64> = steps(&metrics).into_iter().map(loss).collect();
    assert_eq!(losses.len(), 45);
    let mean = |l: &[f64]| l.iter().sum::<f64>() / l.len() as f64;
    assert!(mean(&losses[30..]) < 0.5 * mean(&losses[..15]), "{losses:?}");
    let object = ran.json();
    assert_eq!((object["split"].as_str(), object["windows"].as_u64()), (Some("train"), Some(1000)));
    assert!(ran.out.contains("mean label"), "{}", ran.out);
    assert_eq!(f.runs("evaluate runs/window-regressor-1 --json").json()["mse"], object["mse"]);
    assert_eq!(
        f.refused("forecast runs/window-regressor-1"),
        "runs/window-regressor-1 holds a window-regressor, which predicts one label for a window and no future rows; \
         train a patchtst to forecast"
    );
    f.runs(&format!("{words} --device null"));
    assert_eq!(Folder::names_in(&f.path().join("runs")), ["window-regressor-1"]);
}

#[test]
fn without_data_a_series_is_generated() {
    let f = Folder::new();
    let small =
        "train --preset patchtst-42 --samples 400 --channels 2 --context 32 --horizon 8 --max-steps 2";
    let ran = f.runs(small);
    assert!(ran.out.starts_with(
        "no --data: this trains on a generated hourly series, 400 rows of 2 columns, seed 2021\n"
    ));
    f.runs(small);
    assert_eq!(Folder::names_in(&f.path().join("runs")), ["patchtst-42-1", "patchtst-42-2"]);
    f.runs("evaluate runs/patchtst-42-2 --weights last");
    f.runs("forecast runs/patchtst-42-1");

    let ran = f.runs(&format!("{small} --device null --json"));
    assert!(ran.out.contains("computes nothing, so there will be no results"), "{}", ran.out);
    let object = ran.json();
    assert_eq!((object["steps"].as_u64(), object["allocations"].as_u64()), (Some(2), Some(0)));
    assert!(object.get("mse").is_none());
}

#[test]
fn recipes_and_options_reach_the_run() {
    let f = folder();
    let config = |flags: &str| {
        f.runs(&format!("{SMALL} --max-steps 1 --out run {flags}"));
        let text = f.read("run/config.toml");
        std::fs::remove_dir_all(f.path().join("run")).expect("removed");
        text
    };
    let official = config("");
    for line in [
        "schedule = \"official\"",
        "betas = [0.95, 0.999]",
        "lr = 0.0001",
        "weight-decay = 0.0",
        "clip = 0.0",
    ] {
        assert!(official.contains(line), "{line} in\n{official}");
    }
    let cosine =
        config("--schedule cosine --optimizer adamw --dtype f64 --freeze W_pos --clip 1 --order sequential");
    for line in [
        "betas = [0.9, 0.999]",
        "weight-decay = 0.01",
        "dtype = \"f64\"",
        "freeze = [\"W_pos\"]",
        "clip = 1.0",
    ] {
        assert!(cosine.contains(line), "{line} in\n{cosine}");
    }
    assert!(config("--schedule official --betas 0.9,0.99").contains("betas = [0.9, 0.99]"));
    f.write("c.toml", "lr = 0.5\ndropout = 0.0\n[network]\nnorm = \"layer\"\norder = \"pre\"\npatch = 8\n");
    let own = config("--config c.toml --lr 0.25");
    for line in ["lr = 0.25", "dropout = 0.0", "norm = \"layer\"", "order = \"pre\"", "patch = 8"] {
        assert!(own.contains(line), "{line} in\n{own}");
    }
}

#[test]
fn weights_start_another_run() {
    let f = folder();
    f.runs(&format!("{SMALL} --max-steps 5 --out first"));
    // All but the positions frozen, so that another seed's run has the first one's head.
    f.runs(&format!("{SMALL} --max-steps 1 --seed 7 --freeze .weight --freeze .bias --init first/best.safetensors --out second"));
    let head =
        |name: &str| f.runs(&format!("evaluate {name} --json")).json()["mse"].as_f64().expect("a number");
    // One step at the first epoch's small rate changes little; a run of its own seed is elsewhere.
    f.runs(&format!("{SMALL} --max-steps 1 --seed 7 --out third"));
    let [first, second, third] = ["first", "second", "third"].map(head);
    assert!((second - first).abs() < 0.1 * (third - first).abs(), "{first} {second} {third}");
}

#[test]
fn a_plan_prints() {
    let f = Folder::new();
    let ran = f.runs("plan --context 48 --horizon 8 --batch 4 --channels 3");
    assert!(ran.out.starts_with("patchtst-42: batch 4, 3 channels, context 48, horizon 8, "), "{}", ran.out);
    let object = f.runs("plan --context 48 --horizon 8 --batch 4 --channels 3 --json").json();
    let peak = object["peak_mib"].as_f64().expect("a number");
    assert!(ran.out.trim_end().ends_with(&format!("peak {peak:.2} MiB")), "{}", ran.out);
    assert_eq!(object["peak_bytes"].as_u64().map(|b| b as f64 / 1_048_576.0), Some(peak));
    assert!(object["plan"]["rows"].as_array().expect("rows").len() > 50);
    let more = f.runs("plan --context 48 --horizon 8 --batch 8 --channels 3 --json").json();
    assert!(more["peak_mib"].as_f64() > Some(peak));
    f.runs("plan --model window-regressor --batch 4 --all");
    assert_eq!(f.names(), [""; 0]);
}

/// What a file is found to hold is kept by the run, and reads another one alike.
#[test]
fn a_run_keeps_what_was_found_in_its_file() {
    let f = Folder::new();
    // Days first: the last days of a month tell it, the first ones of another month alone do not.
    let rows = |from: usize, to: usize| {
        let row = |i: usize| {
            let (month, day) = (1 + i / 28, 1 + i % 28);
            let of = |site: &str, level: f64| {
                format!("{site};{day:02}/{month:02}/2021;{:.3};a\n", level + (i % 7) as f64)
            };
            (of("x", 1.0) + &of("z", 20.0)).replace('.', ",")
        };
        "site;when;load;weather\n".to_owned() + &(from..to).map(row).collect::<String>()
    };
    f.write("all.csv", rows(0, 200));
    f.write("new.csv", rows(28, 38));
    let ran = f.runs(
        "train --data all.csv --model dlinear --context 8 --horizon 2 --max-steps 1 --threads 1 --out run",
    );
    assert!(ran.out.starts_with("data all.csv: 2 series by column `site`, "), "{}", ran.out);
    let config = f.read("run/config.toml");
    for line in [
        "date-column = \"when\"",
        "date-format = \"%d/%m/%Y\"",
        "series-id = \"site\"",
        "period = 7",
        "columns = [\"load\"]",
    ] {
        assert!(config.contains(line), "{line} in {config}");
    }
    let forecast = f.runs("forecast run --data new.csv").out;
    let dates: Vec<&str> = forecast.lines().skip(1).filter_map(|l| l.split(',').nth(1)).collect();
    assert_eq!(dates, ["11/02/2021", "12/02/2021", "11/02/2021", "12/02/2021"]);
    // The configuration, given to a new run, is the same run.
    f.runs("train --config run/config.toml --out again");
    assert_eq!(f.read("again/metrics.jsonl"), f.read("run/metrics.jsonl"));
}
