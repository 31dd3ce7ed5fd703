//! Every door of the program to a Chronos-2: forecasts with covariates, scores, backtests, and its training on a file.

mod program;

use program::known::rows;
use program::{Folder, chronos, csv};
use serde_json::{Value, json};

const ROWS: usize = 300;
const HORIZON: usize = 6;
const ALL: [&str; 4] = ["sales", "price", "event", "weather"];
const COVARIATES: &str = "--target sales --known-future price,event --categorical event --calendar hour";
const ON: &str = "--device cpu --threads 2";

/// A small Chronos-2 and sales with covariates.
fn folder() -> Folder {
    let f = Folder::new();
    chronos::folder(&f.path().join("small"));
    f.write("d.csv", rows(0, ROWS, &ALL));
    f.write("future.csv", rows(ROWS, HORIZON, &["price", "event"]));
    f
}

fn numbers(value: &Value) -> Vec<f64> {
    match value.as_array() {
        Some(all) => all.iter().flat_map(numbers).collect(),
        None => vec![value.as_f64().expect("a number")],
    }
}

#[test]
fn covariates_are_read() {
    let f = folder();
    let forecast = |words: &str| {
        let words =
            format!("forecast --pretrained small --data d.csv --horizon {HORIZON} {words} {ON} --json");
        numbers(&f.runs(&words).json()["values"])
    };
    let whole = forecast(&format!("{COVARIATES} --future future.csv"));
    assert_eq!(whole.len(), HORIZON);
    // Each of them matters: those known in advance, in their rows ahead too, and those that are not.
    let alone = forecast("--target sales --columns sales");
    let past = forecast("--target sales --columns sales,weather");
    let known = forecast("--target sales --columns sales,price --known-future price --future future.csv");
    for (a, b) in [(&alone, &past), (&alone, &known), (&past, &whole), (&known, &whole)] {
        assert!(a.iter().zip(b).any(|(a, b)| (a - b).abs() > 1e-6), "{a:?} {b:?}");
    }
    f.write("other.csv", f.read("future.csv").replacen(",fair", ",strike", 3));
    assert_ne!(forecast(&format!("{COVARIATES} --future other.csv")), whole);
    // What was known at a past row stands in the rows after it.
    f.write("older.csv", rows(0, 219, &ALL));
    f.write("after.csv", rows(219, HORIZON, &["price", "event"]));
    let older = f.runs(&format!(
        "forecast --pretrained small --data older.csv --future after.csv --horizon {HORIZON} {COVARIATES} {ON}"
    ));
    let at = f.runs(&format!(
        "forecast --pretrained small --data d.csv --at 2024-01-10T02:00 --horizon {HORIZON} {COVARIATES} {ON}"
    ));
    assert_eq!(older.out, at.out);
}

#[test]
fn covariates_that_cannot_be_are_refused() {
    let f = folder();
    let forecast = format!("forecast --data d.csv --horizon {HORIZON} --target sales {ON}");
    for (words, told) in [
        (format!("{forecast} --pretrained small --known-future price"), "--future"),
        (format!("{forecast} --pretrained small --future future.csv"), "name them with --known-future"),
        (
            format!("{forecast} --known-future price"),
            "Landfall's own pretrained weights: they read no covariates",
        ),
        (format!("{forecast} --pretrained small --known-future prize"), "prize"),
        (format!("{forecast} --pretrained small --static price"), "--static"),
    ] {
        let error = f.refused(&words);
        assert!(error.contains(told), "{words}: {error}");
    }
}

#[test]
fn windows_are_scored_beside_baselines() {
    let f = folder();
    for (weights, covariates) in [("small", COVARIATES), ("zero-shot", "--target sales"), ("small", "")] {
        let command = format!(
            "evaluate --pretrained {weights} --data d.csv --horizon {HORIZON} --columns sales,price,event,weather {covariates} {ON}"
        );
        let command = if covariates.contains("event") {
            command.replace("--columns sales,price,event,weather", "")
        } else {
            command.replace(",event", "")
        };
        let ran = f.runs(&format!("{command} --interval 50,80 --predictions p.csv --json"));
        let object = ran.json();
        // The last 60 rows test, from each of them one window, as of a run.
        assert_eq!(object["windows"], 60 - HORIZON + 1, "{object}");
        assert_eq!(object["baselines"][0]["name"], "last value");
        let [narrow, wide] = [0, 1].map(|i| object["intervals"][i]["coverage"].as_f64().expect("a share"));
        assert!(0.0 < narrow && narrow < wide && wide <= 1.0, "{narrow} {wide}");
        assert_eq!(object["quantile_scores"]["levels"].as_array().map(Vec::len), Some(9));
        assert!(ran.out.contains("seasonal naive (24)") && ran.out.contains("CRPS"), "{}", ran.out);
        // The error of sales is that of the file of predictions.
        let text = f.read("p.csv");
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().expect("a header");
        let place = |name: &str| {
            header.iter().position(|h| *h == name).unwrap_or_else(|| panic!("{name} {header:?}"))
        };
        let (forecast, actual) = (place("sales"), place("sales_actual"));
        let errors: Vec<f64> = lines
            .map(|l| {
                l[forecast].parse::<f64>().expect("a number") - l[actual].parse::<f64>().expect("a number")
            })
            .collect();
        let mse = errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64;
        let told = object["columns"][0]["mse"].as_f64().expect("an error");
        assert!((mse / told - 1.0).abs() < 1e-9, "{mse} {told}");
        std::fs::remove_file(f.path().join("p.csv")).expect("removed");
    }
    // The last window of `last` is what a forecast says.
    let words = format!("--pretrained small --data d.csv --horizon {HORIZON} {COVARIATES} {ON} --json");
    f.runs(&format!("evaluate {words} --split last --predictions p.csv"));
    let at = f.runs(&format!("forecast {words} --at 2024-01-13T05:00")).json();
    let told: Vec<f64> = f
        .read("p.csv")
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(3).expect("a forecast").parse().expect("a number"))
        .collect();
    assert_eq!(numbers(&at["values"]), told, "{}", f.read("p.csv"));
}

#[test]
fn origins_are_forecast_and_scored() {
    let f = folder();
    for (weights, covariates) in [("small", COVARIATES), ("zero-shot", "--target sales")] {
        let words = format!("--pretrained {weights} --data d.csv --horizon {HORIZON} {covariates} {ON}");
        let ran = f.runs(&format!(
            "backtest {words} --windows 5 --step 4 --json --predictions b.csv --report b.html"
        ));
        let object = ran.json();
        assert_eq!((&object["origins"], &object["windows"]), (&json!(5), &json!(5)), "{object}");
        assert_eq!(object["baselines"].as_array().map(Vec::len), Some(2));
        assert!(object["coverage"].as_f64().is_some_and(|share| share > 0.0), "{object}");
        let name = if weights == "small" { "chronos-2" } else { "zero-shot" };
        assert!(object["forecaster"] == name && f.read("b.html").contains(name));
        for name in ["b.csv", "b.html"] {
            std::fs::remove_file(f.path().join(name)).expect("removed");
        }
    }
    for (words, told) in [
        ("--refit always", "--refit and --pretrained: nothing is trained"),
        ("--model dlinear --lr 0.1", "--model, --lr and --pretrained: nothing is trained"),
    ] {
        let error =
            f.refused(&format!("backtest --pretrained small --data d.csv --horizon 3 --windows 2 {words}"));
        assert!(error.contains(told), "{error}");
    }
}

const TUNE: &str = "fine-tune --pretrained small --data d.csv --target sales --known-future price --columns sales,price,weather \
                    --horizon 6 --batch 12 --lr 1e-2 --device cpu --threads 2";

#[test]
fn weights_are_trained_further_and_scored() {
    let f = folder();
    let command = format!("{TUNE} --steps 30 --every 10 --out tuned --json");
    let ran = f.runs(&command);
    let object = ran.json();
    let point = |i: usize| object["points"][i]["validation"].as_f64().expect("a loss");
    assert_eq!(object["points"].as_array().map(Vec::len), Some(4), "{object}");
    let chosen = object["chosen"]["loss"].as_f64().expect("a loss");
    assert!(chosen < point(0), "{object}");
    assert!(ran.out.contains("step 30/30  loss ") && ran.out.contains("before the training"), "{}", ran.out);
    // The new weights are a folder like the old ones, and their scores are those that were printed.
    let evaluate = |weights: &str| {
        let words = format!(
            "evaluate --pretrained {weights} --data d.csv --target sales --known-future price --columns sales,price,weather --horizon 6 {ON} --json"
        );
        f.runs(&words).json()
    };
    for (weights, key) in [("tuned", "test"), ("small", "test_before")] {
        let (told, found) = (&object[key], evaluate(weights));
        for score in ["mse", "mae", "intervals"] {
            assert_eq!(told[score], found[score], "{weights} {score}");
        }
    }
    assert_ne!(object["test"]["mse"], object["test_before"]["mse"]);
    // The same command again has nothing left to do.
    let again = f.runs(&command);
    assert!(again.out.contains("going on after step 30"), "{}", again.out);
    assert_eq!(again.json(), object);
    // An adapter lies apart too.
    let ran = f.runs(&format!(
        "{TUNE} --steps 4 --every 2 --adapter --rank 2 --dtype bf16 --no-test --out low --json"
    ));
    let config: Value = serde_json::from_str(&f.read("low/adapter/adapter_config.json")).expect("JSON");
    assert_eq!((&config["r"], &config["lora_alpha"]), (&json!(2), &json!(4.0)));
    assert_eq!(
        (&ran.json()["adapter"], &ran.json()["test"]),
        (&json!(program::native("low/adapter")), &Value::Null)
    );
    f.runs(&format!(
        "forecast --pretrained low --data d.csv --target sales --columns sales --horizon 3 {ON}"
    ));
}

#[test]
fn a_training_that_diverges_says_so() {
    let f = folder();
    let ran = f.run(&format!("{} --steps 20 --every 5 --out far", TUNE.replace("1e-2", "1e30")));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("the training diverged: give a smaller --lr"), "{}", ran.err);
    assert!(!f.path().join("far/model.safetensors").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupted_training_goes_on_by_the_same_command() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let f = folder();
    let words = |out: &str| format!("{TUNE} --steps 200 --every 10 --no-test --out {out}");
    f.runs(&words("whole"));
    let mut child =
        f.command(&words("part")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("step 10/200"))));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    // What it says has to be read.
    lines.for_each(drop);
    let ended = child.wait_with_output().expect("its end");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{err}");
    assert!(err.contains("checkpoint saved; the same command goes on with it"), "{err}");
    assert!(!f.path().join("part/model.safetensors").exists());
    let ran = f.runs(&words("part"));
    assert!(ran.out.contains("going on after step "), "{}", ran.out);
    let bytes = |out: &str| std::fs::read(f.path().join(out).join("model.safetensors")).expect("weights");
    assert!(bytes("whole") == bytes("part"), "a break leaves a trace");
}

#[test]
fn trainings_that_cannot_be_are_refused() {
    let f = folder();
    f.write("short.csv", csv(20));
    std::fs::create_dir(f.path().join("taken")).expect("a folder");
    let all = "fine-tune --pretrained small --data d.csv --target sales --columns sales";
    for (words, told) in [
        ("fine-tune --pretrained small --out new", "--data is needed"),
        ("fine-tune --data d.csv --out new", "--pretrained"),
        (&format!("{all} --out new"), "--horizon is needed"),
        (&format!("{all} --horizon 9 --out new"), "the horizon is 9; it must be 1 to 8 rows"),
        (&format!("{all} --horizon 6 --out taken"), "taken exists, and holds no training of a Chronos-2"),
        (&format!("{all} --horizon 6 --steps 0 --out new"), "steps is 0"),
        (&format!("{all} --horizon 6 --context 65 --out new"), "the context is 65 rows; it must be 1 to 64"),
        (
            &format!("{all} --horizon 6 --dtype f64 --out new"),
            "the dtype is f64; it must be f32, tf32, bf16 or f16",
        ),
        (
            &format!("{all} --horizon 6 --dtype tf32 --device cpu --out new"),
            "on the CPU compute in 32-bit floats",
        ),
        (&format!("{all} --horizon 6 --rank 4 --out new"), "--adapter"),
        (&format!("{all} --horizon 6 --interval 0 --out new"), "levels are percent"),
        (
            "fine-tune --pretrained small --data short.csv --horizon 8 --out new",
            "training split has 14 rows; 16 needed",
        ),
        (
            "fine-tune --pretrained none --data d.csv --horizon 6 --out new",
            "--pretrained none: there is no such folder",
        ),
    ] {
        let error = f.refused(words);
        assert!(error.contains(told), "{words}: {error}");
    }
}

#[cfg(unix)]
#[test]
fn a_server_reads_covariates() {
    use program::server::Server;
    let f = folder();
    let server = Server::start(&f, "--pretrained small");
    let told = f.runs(&format!(
        "forecast --pretrained small --data d.csv --future future.csv --horizon {HORIZON} {COVARIATES} {ON}"
    ));
    let query = format!(
        "/forecast?horizon={HORIZON}&target=sales&known-future=price,event&categorical=event&calendar=hour"
    );
    let (data, future) = (f.read("d.csv"), f.read("future.csv"));
    let form = |parts: &[(&str, &str)]| {
        let body = parts.iter().map(|(name, text)| {
            format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.csv\"\r\n\r\n{text}\r\n")
        });
        let body = body.collect::<String>() + "--edge--\r\n";
        server.post(&query, "Content-Type: multipart/form-data; boundary=edge\r\n", &body)
    };
    assert_eq!(form(&[("data", &data), ("future", &future)]).body, told.out);
    let columns = |from: usize, count: usize, names: &[&str]| {
        let list =
            |name: &str| (from..from + count).map(|t| program::known::cell(t, name)).collect::<Vec<_>>();
        let all: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), list(name).into())).collect();
        json!({"dates": list("date"), "columns": all})
    };
    let mut object = columns(0, ROWS, &ALL);
    object["future"] = columns(ROWS, HORIZON, &["price", "event"]);
    let ask = |body: &Value| server.post(&query, "Content-Type: application/json\r\n", &body.to_string());
    let answer = ask(&object).json();
    let forecast = f.runs(&format!(
        "forecast --pretrained small --data d.csv --future future.csv --horizon {HORIZON} {COVARIATES} {ON} --json"
    ));
    assert_eq!(answer["forecasts"][0]["values"], forecast.json()["values"], "{answer}");
    // Several at once, rows after them without dates.
    object["future"].as_object_mut().expect("an object").remove("dates");
    let both = ask(&json!({"histories": [object, columns(0, 200, &ALL)]}));
    assert!(both.code == 422 && both.error().contains("future"), "{}", both.body);
    let both = ask(&json!({"histories": [object, object]})).json();
    assert_eq!(both["forecasts"][1]["values"], answer["forecasts"][0]["values"], "{both}");
    // What is missing is said.
    let none = server.post(
        "/forecast?horizon=3&target=sales",
        "Content-Type: application/json\r\n",
        &object.to_string(),
    );
    assert!(none.error().contains("?known-future="), "{}", none.body);
    assert!(server.get("/").body.contains("known-future=price"));
    assert_eq!(server.get("/model").json()["covariates"], true);
}

#[test]
fn an_import_checks_a_folder() {
    let f = folder();
    let ran = f.runs("import small --json");
    let object = ran.json();
    assert_eq!((&object["context"], &object["horizon"]), (&json!(chronos::CONTEXT), &json!(chronos::PASS)));
    assert!(ran.out.contains("Forecast with: landfall forecast --pretrained small"), "{}", ran.out);
    f.runs("import small --out copy");
    for name in ["config.json", "model.safetensors"] {
        let of = |folder: &str| std::fs::read(f.path().join(folder).join(name)).expect(name);
        assert!(of("small") == of("copy"), "{name}");
    }
    assert_eq!(f.refused("import small --out copy"), "copy exists already; choose another file");
    assert_eq!(f.refused("import none"), "WEIGHTS none: there is no such file or folder; check the path");
    assert!(f.refused("import small --data d.csv").contains("landfall evaluate --pretrained"));
    let whole = std::fs::read(f.path().join("small/model.safetensors")).expect("weights");
    f.write("copy/model.safetensors", &whole[..whole.len() - 4]);
    assert!(f.refused("import copy").contains("is not a whole safetensors file"));
}

#[test]
fn several_series_and_columns_are_scored_and_trained_on() {
    let f = folder();
    let mut text = "shop,date,a,b\n".to_owned();
    for (shop, rows) in [("north", 120), ("south", 90), ("west", 9)] {
        for (i, line) in csv(rows).lines().skip(1).enumerate() {
            let date = line.split(',').next().expect("a date");
            // A value in ten is missing.
            let a = if i % 10 == 7 { String::new() } else { format!("{}", (i * 37) % 23) };
            text += &format!("{shop},{date},{a},{}\n", i % 24 + rows);
        }
    }
    f.write("shops.csv", text);
    let words = format!("--pretrained small --data shops.csv --series-id shop --horizon 4 {ON}");
    let ran = f.runs(&format!("evaluate {words} --json"));
    let object = ran.json();
    let all = object["series"].as_array().expect("series");
    let number = |value: &Value| value.as_f64().expect("a number");
    let windows: Vec<f64> = all.iter().map(|one| number(&one["windows"])).collect();
    assert_eq!(windows, [21.0, 15.0], "{object}");
    let weighted: f64 = all.iter().zip(&windows).map(|(one, n)| n * number(&one["mse"])).sum();
    assert!((weighted / 36.0 / number(&object["mse"]) - 1.0).abs() < 1e-12, "{object}");
    assert!(ran.err.contains("series `west` (9 rows) is left out"), "{}", ran.err);
    assert_eq!(object["columns"].as_array().map(Vec::len), Some(2));
    let validation = f.runs(&format!("evaluate {words} --segment validation --json")).json();
    // 12 rows of one series and 10 of the other.
    assert_eq!((&validation["windows"], &validation["intervals"]), (&json!(16), &Value::Null));
    assert!(
        f.refused(&format!("evaluate {words} --segment train --interval 80")).contains("of the test windows")
    );
    // A short validation part leaves the last weights.
    let ran =
        f.runs(&format!("fine-tune {words} --split 0.78,0.02,0.2 --steps 2 --batch 8 --out shops --json"));
    assert!(ran.err.contains("nothing chooses among the weights"), "{}", ran.err);
    assert_eq!(ran.json()["chosen"], Value::Null);
}
