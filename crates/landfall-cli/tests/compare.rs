//! A leaderboard of forecasters: its order, its verdicts, what fails, and how it goes on.

mod program;

use program::{Folder, native};
use serde_json::Value;

const SEASON: [f64; 12] = [8.0, -3.0, 0.0, 5.0, -9.0, 2.0, 4.0, -6.0, 1.0, 7.0, -4.0, -5.0];

/// Monthly series of a trend with a season, in long form.
fn monthly(series: usize, rows: usize) -> String {
    let mut text = "id,ds,y\n".to_owned();
    for s in 0..series {
        for row in 0..rows {
            let noise = ((row * 37 + s * 101) % 23) as f64 / 23.0 - 0.5;
            let y = 100.0 + s as f64 + 0.4 * row as f64 + SEASON[(row + s) % 12] + 2.0 * noise;
            text += &format!("s{s},{}-{:02}-01,{y}\n", 2000 + row / 12, row % 12 + 1);
        }
    }
    text
}

const COMPARE: &str = "compare --data d.csv --device cpu --threads 2 --horizon 3";

/// The rows of a leaderboard.
fn rows(board: &Value) -> &Vec<Value> {
    board["rows"].as_array().expect("rows")
}

fn texts<'v>(board: &'v Value, key: &str) -> Vec<&'v str> {
    rows(board).iter().map(|row| row[key].as_str().unwrap_or("-")).collect()
}

#[test]
fn forecasters_of_one_series_stand_in_the_order_of_their_errors() {
    let f = Folder::new();
    f.write("d.csv", monthly(1, 144));
    let ran =
        f.runs(&format!("{COMPARE} --candidates seasonal-naive,ets,croston,ensemble,nlinear --out c --json"));
    let board = ran.json();
    assert_eq!(board["metric"], "rmsse");
    assert_eq!(serde_json::from_str::<Value>(&f.read("c/leaderboard.json")).expect("JSON"), board);
    // A trend with a season is best continued by what knows both.
    assert_eq!(rows(&board).len(), 5);
    let errors: Vec<f64> =
        rows(&board).iter().map(|row| row["validation"].as_f64().expect("a number")).collect();
    assert!(errors.is_sorted(), "{errors:?}");
    let place = |name: &str| texts(&board, "candidate").iter().position(|one| *one == name).expect("a row");
    assert!(
        place("ets") < place("seasonal-naive") && place("seasonal-naive") < place("croston"),
        "{}",
        ran.out
    );
    let verdicts = texts(&board, "verdict");
    assert_eq!((verdicts[0], verdicts[place("croston")]), ("best", "worse"), "{}", ran.out);
    assert_eq!(rows(&board)[place("ets")]["forecaster"], "ets");
    assert_eq!(rows(&board)[place("seasonal-naive")]["forecaster"], "seasonal naive (12)");
    for name in ["seasonal-naive", "ets", "croston", "ensemble", "nlinear"] {
        let choice: Value = serde_json::from_str(&f.read(&format!("c/{name}/choice.json"))).expect("JSON");
        assert_eq!(choice["winner"]["rmsse"], rows(&board)[place(name)]["validation"]);
        // All are scored on the same windows.
        assert_eq!(choice["windows"], board["windows"], "{name}");
        assert_eq!(f.runs(&format!("forecast c/{name}")).out.lines().count(), 4);
    }
    assert!(ran.out.contains("RMSSE, test") && ran.out.contains("Diebold and Mariano"), "{}", ran.out);
    let said =
        format!("c holds the runs of a comparison; name one of them, as {}", native("c/seasonal-naive"));
    assert!(f.refused("forecast c").contains(&said));
}

#[test]
fn many_series_are_compared_by_mase_and_what_fails_stands_last() {
    let f = Folder::new();
    f.write("d.csv", monthly(24, 60).replace("s7,2001-01-01,", "s7,2001-01-01,-"));
    let words = format!("{COMPARE} --series-id id --columns y");
    let ran = f.runs(&format!("{words} --candidates tsb,theta,seasonal-naive --out c --json"));
    let board = ran.json();
    assert_eq!(board["metric"], "mase");
    assert_eq!(texts(&board, "candidate")[2], "tsb");
    let why = rows(&board)[2]["failed"].as_str().expect("a reason");
    assert!(why.contains("series `s7`") && why.contains("never below 0"), "{why}");
    assert!(ran.out.contains("tsb failed: ") && ran.out.contains("of 24 series and columns"), "{}", ran.out);
    assert_eq!(
        (rows(&board)[2]["rank"].is_null(), &rows(&board)[0]["verdict"]),
        (true, &Value::from("best"))
    );
    assert!(rows(&board)[1]["difference"]["standard_error"].as_f64().is_some_and(|error| error > 0.0));
    // Where all fail so does the comparison.
    let ran = f.run(&format!("{words} --candidates tsb,croston --out d"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(
        f.path().join("d/leaderboard.json").exists() && !ran.out.contains("Forecast with"),
        "{}",
        ran.out
    );
}

#[test]
fn a_comparison_goes_on_where_it_was() {
    let f = Folder::new();
    f.write("d.csv", monthly(1, 144));
    let words = format!("{COMPARE} --candidates theta,dlinear,ets --json");
    let whole = f.runs(&format!("{words} --out whole")).json();
    f.runs(&format!("{words} --out half"));
    // As if the last had not begun.
    std::fs::remove_dir_all(f.path().join("half/ets")).expect("removed");
    std::fs::remove_file(f.path().join("half/leaderboard.json")).expect("removed");
    let before = f.read("half/theta/metrics.jsonl");
    let ran = f.runs("compare --resume half --json");
    for key in ["candidate", "validation", "test", "verdict"] {
        let of = |board: &Value| rows(board).iter().map(|row| row[key].clone()).collect::<Vec<_>>();
        assert_eq!(of(&ran.json()), of(&whole), "{key}");
    }
    assert_eq!(f.read("half/theta/metrics.jsonl"), before, "a run that is done is not trained again");
    assert!(ran.out.contains("done before"), "{}", ran.out);
    let said = f.refused("compare --resume half --horizon 4");
    assert!(said.contains("a comparison keeps its folder, candidates and settings"), "{said}");
    assert!(f.refused("compare --resume half/theta").contains("holds no comparison"));
    assert!(f.refused(&format!("{words} --out half")).contains("already exists"));
}

#[cfg(unix)]
#[test]
fn an_interruption_keeps_what_is_done() {
    let f = Folder::new();
    f.write("d.csv", monthly(1, 300));
    let words = format!("{COMPARE} --candidates ets,patchtst --max-steps 100000 --out c");
    let mut command = f.command(&words);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("it starts");
    let metrics = f.path().join("c/patchtst/metrics.jsonl");
    while std::fs::metadata(&metrics).map_or(0, |m| m.len()) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &pid]).status().expect("kill").success());
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("what is done stays; resume with: landfall compare --resume c"), "{said}");
    let names = f.names();
    assert!(names.contains(&"c".to_owned()) && !f.path().join("c/leaderboard.json").exists());
    assert!(
        f.path().join("c/ets/compared.json").exists()
            && f.path().join("c/patchtst/checkpoint.safetensors").exists()
    );
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let f = Folder::new();
    f.write("d.csv", monthly(1, 60));
    for (flags, said) in [
        ("--candidates ets,tetha", "unknown candidate `tetha`; did you mean `theta`?"),
        ("--candidates ets", "a comparison needs two at least"),
        ("--candidates ets,ETS", "one is named twice"),
        ("--candidates ets,theta --device null", "it computes nothing"),
        ("--candidates ets,theta --model tide", "--model"),
        ("--candidates ets,theta --horizon 40", "no window is left before the test rows"),
    ] {
        let refused = f.refused(&format!("compare --data d.csv {flags} --out c"));
        assert!(refused.contains(said), "{flags}: {refused}");
    }
}

#[test]
fn a_run_may_have_one_member_alone() {
    let f = Folder::new();
    f.write("d.csv", monthly(2, 72));
    let train = "train --data d.csv --series-id id --columns y --horizon 3 --device cpu --threads 2 --candidates none";
    for member in ["ets", "theta", "dynamic-theta", "croston", "tsb", "pretrained"] {
        let ran = f.runs(&format!("{train} --ensemble {member} --interval 80 --out {member} --json"));
        assert_eq!(ran.json()["winner"], member);
        assert!(ran.out.contains("no network is trained") && !ran.out.contains("alone "), "{}", ran.out);
        let models = f.read(&format!("{member}/ensemble.json"));
        assert!(models.starts_with(&format!("{{\"members\":\"{member}\",\"season\":12,")), "{models:.60}");
        let forecast = f.runs(&format!("forecast {member} --interval 80,99")).out;
        assert_eq!(forecast.lines().count(), 7, "{forecast}");
        assert!(f.runs(&format!("evaluate {member}")).out.contains(member));
    }
    f.runs("report ets");
    assert!(f.read("ets/report.html").contains("ets"));
    f.runs("backtest ets --windows 2 --step 3");
    let why = f.run("export ets --onnx m.onnx").err;
    assert!(why.contains("forecasts by ets alone, which has no form in ONNX"), "{why}");
    // Of the mean with a network the member has its name too.
    let ran = f.runs("train --data d.csv --series-id id --columns y --horizon 3 --device cpu --candidates nlinear --ensemble theta --out both --json");
    let names = ran.json()["choice"]["candidates"].to_string();
    assert!(names.contains("\"mean of nlinear and theta\"") && !names.contains("ensemble"), "{names}");
    // Nothing else: the season before.
    let ran = f.runs(&format!("{train} --out naive --json"));
    assert_eq!(ran.json()["winner"], "seasonal naive (12)");
    assert!(!ran.out.contains("does not beat") && !ran.out.contains("No network was better"), "{}", ran.out);
    for (flags, said) in [
        ("--ensemble ets --loss mae", "--candidates none and another loss than mse"),
        ("--ensemble ets --init zero-shot", "--candidates and --model zero-shot"),
    ] {
        let refused = f.refused(&format!("{train} {flags} --out no"));
        assert!(refused.contains(said), "{flags}: {refused}");
    }
    let long = train.replace("--horizon 3", "--horizon 5000");
    let refused = f.refused(&format!("{long} --ensemble pretrained --out no"));
    assert!(refused.contains("it forecasts at most"), "{refused}");
}
