//! `landfall backtest`, `landfall forecast --at` and `landfall evaluate --segment`: what is known when, and what errors are
//! computed from.

mod program;

use program::{Folder, SMALL, csv};
use serde_json::Value;

/// Rows of a file of predictions.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines().skip(1).map(|l| l.split(',').map(str::to_owned).collect()).collect()
}

fn number(cell: &str) -> f64 {
    cell.parse().expect(cell)
}

fn float(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance * b.abs(), "{a} and {b}");
}

/// A short training that is chosen by the default recipe, and one of a preset.
const NEW: [&str; 2] = [
    "--max-steps 4 --context 16 --horizon 4 --batch 8 --threads 2",
    "--preset dlinear --max-steps 6 --context 16 --horizon 4 --batch 8 --threads 2",
];

#[test]
fn errors_are_those_of_evaluate_over_the_same_windows_and_of_the_file() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f.runs(&format!("{SMALL} --epochs 2 --lr 0.003 --schedule constant --quantiles 0.1,0.5,0.9 --out run"));
    let evaluated = f.runs("evaluate run --json --predictions e.csv").json();
    let windows = evaluated["windows"].as_u64().expect("a number");
    let tested =
        f.runs(&format!("backtest run --windows {windows} --predictions b.csv --report b.html --json"));
    assert!(!tested.err.contains("origins lie before the test rows"), "{}", tested.err);
    let tested = tested.json();
    assert_eq!(tested["windows"].as_u64(), Some(windows));
    // The squared error of evaluate is that of quantiles before they are sorted: a test below has one without.
    for key in ["mase", "smape", "r2"] {
        close(float(&tested[key]), float(&evaluated[key]), 1e-5);
        close(float(&tested["columns"][1][key]), float(&evaluated["columns"][1][key]), 1e-5);
    }
    for key in ["mse", "mae", "rmse", "mase", "smape", "r2"] {
        for (b, e) in (0..2).map(|i| (&tested["baselines"][i], &evaluated["baselines"][i])) {
            close(float(&b[key]), float(&e[key]), 1e-6);
        }
    }
    let (b, e) = (rows(&f.read("b.csv")), rows(&f.read("e.csv")));
    assert!(
        f.read("b.csv").starts_with("cutoff,step,date,load,load_q0.1,load_q0.5,load_q0.9,load_actual,wind,")
    );
    assert_eq!(b.len(), e.len());
    // Errors of a step and of an origin, in original units, of the second column alone: from the file.
    let (mut squared, mut below) = (0.0, 0.0);
    for (b, e) in b.iter().zip(&e) {
        assert_eq!((&b[1], &b[2], &b[7]), (&e[1], &e[2], &e[7]));
        close(number(&b[8]), number(&e[8]), 1e-4);
        squared += (number(&b[8]) - number(&b[12])).powi(2);
        below += f64::from(u8::from(number(&b[9]) <= number(&b[12]) && number(&b[12]) <= number(&b[11])));
        below += f64::from(u8::from(number(&b[4]) <= number(&b[7]) && number(&b[7]) <= number(&b[6])));
    }
    let n = b.len() as f64;
    close(float(&tested["columns"][1]["mse"]), squared / n, 1e-12);
    close(float(&tested["coverage"]), below / (2.0 * n), 1e-12);
    let mean = |key: &str| {
        let all = tested[key].as_array().expect("a list");
        all.iter().map(|s| float(&s["mse"])).sum::<f64>() / all.len() as f64
    };
    close(mean("steps"), float(&tested["mse"]), 1e-12);
    close(mean("by_origin"), float(&tested["mse"]), 1e-12);
    let html = f.read("b.html");
    for chart in ["load", "wind", "Error by horizon step", "Error by origin"] {
        assert!(html.contains(&format!("<figcaption>{chart}")), "{chart}");
    }
    let early = f.runs("backtest run --from 2021-01-09 --windows 2 --json").err;
    assert!(early.contains("2 of 2 origins lie before the test rows of the run"), "{early}");
}

/// 150 rows, of which those at and after each `gap` are missing, with a column that is constant up to `changes`, and other
/// values from there on.
fn changed(changes: usize) -> String {
    let mut text = String::new();
    for (i, line) in csv(150).lines().enumerate() {
        let row = i.wrapping_sub(1);
        let cells: Vec<&str> = line.split(',').collect();
        let flat = if row == changes + 1 { "8" } else { "7" };
        text += &match (i, row) {
            (0, _) => format!("{line},flat\n"),
            // Values across the origins of rows 133 and 137 are missing.
            (_, 132..=134 | 136..=138) => format!("{},,{},{flat}\n", cells[0], cells[2]),
            (_, row) if row >= changes => format!("{},{row},{row},{flat}\n", cells[0]),
            _ => format!("{line},{flat}\n"),
        };
    }
    text
}

#[test]
fn values_after_an_origin_change_no_forecast_from_it() {
    let f = Folder::new();
    // The last known rows are 133, 137, 141 and 145; values from row 139 on differ.
    f.write("a.csv", changed(150));
    f.write("b.csv", changed(139));
    let windows = "--windows 4 --step 4 --predictions";
    f.runs(&format!("train --data a.csv --fill linear --columns load,wind --out run {}", NEW[1]));
    let mut commands = vec![("backtest run".to_owned(), "")];
    for new in NEW {
        for refit in ["never", "always", "2"] {
            commands.push((format!("backtest {new} --refit {refit}"), ""));
        }
    }
    commands.push(("backtest run --refit 2".to_owned(), ""));
    for (number, (command, _)) in commands.iter().enumerate() {
        let of = |file: &str| {
            f.runs(&format!("{command} --data {file}.csv {windows} {file}{number}.csv"));
            rows(&f.read(&format!("{file}{number}.csv")))
        };
        let (a, b) = (of("a"), of("b"));
        assert_eq!((a.len(), b.len()), (16, 16), "{command}");
        // Cutoff and step, then forecasts beside actual values: of the forecasts alone the first two origins' are the same.
        let forecasts = |rows: &[Vec<String>]| {
            rows.iter().map(|r| [&r[0], &r[1], &r[3], &r[5]].map(Clone::clone)).collect::<Vec<_>>()
        };
        assert_eq!(forecasts(&a[..8]), forecasts(&b[..8]), "{command}");
        assert!(
            a[12..].iter().zip(&b[12..]).all(|(a, b)| a[3] != b[3]),
            "{command}: the change is seen after it"
        );
    }
}

#[test]
fn an_interrupted_backtest_goes_on_after_its_last_whole_origin() {
    let f = Folder::new();
    f.write("a.csv", csv(150));
    f.write("b.csv", csv(130));
    let command =
        format!("backtest --data a.csv --data b.csv --windows 5 --step 2 --refit 2 {} --json", NEW[0]);
    let whole = f.runs(&format!("{command} --predictions p.csv")).json();
    let text = f.read("p.csv");
    assert!(text.starts_with("series,cutoff,step,date,load,load_actual,wind,wind_actual\na,"), "{text:.200}");
    assert_eq!(text.lines().count(), 1 + 5 * 2 * 4);
    // A header alone; half an origin, cut in a line; two origins and a half; all of it.
    let end = |lines: usize| text.split_inclusive('\n').take(lines).map(str::len).sum::<usize>();
    for (number, bytes) in [end(1), end(6) + 9, end(1 + 16 + 4), text.len()].into_iter().enumerate() {
        let name = format!("p{number}.csv");
        f.write(&name, &text[..bytes]);
        let resumed = f.runs(&format!("{command} --predictions {name} --resume")).json();
        assert_eq!(f.read(&name), text, "{bytes} bytes");
        for key in
            ["mse", "mae", "mase", "smape", "r2", "steps", "series", "by_origin", "columns", "baselines"]
        {
            assert_eq!(resumed[key], whole[key], "{key} after {bytes} bytes");
        }
    }
    let other = command.replace("--step 2", "--step 3");
    assert_eq!(
        f.refused(&format!("{other} --predictions p.csv --resume")),
        "p.csv:2: `2021-01-06 17:00:00` where this backtest has `2021-01-06 13:00:00`; --resume goes on with a file of the \
         same command"
    );
    assert_eq!(f.read("p.csv"), text);
    assert_eq!(
        f.refused(&format!("{command} --predictions p.csv")),
        "p.csv exists already; choose another file"
    );
}

#[test]
fn a_forecast_from_a_past_row_is_that_of_a_file_which_ends_there() {
    let f = Folder::new();
    let whole = csv(300);
    f.write("d.csv", &whole);
    f.runs(&format!("{SMALL} --max-steps 3 --out run"));
    let (rows, days) = (201, "2021-01-09 08:00:00");
    f.write("cut.csv", whole.split_inclusive('\n').take(1 + rows).collect::<String>());
    let at = f.runs("forecast run --at 2021-01-09T08:00 --json").json();
    assert_eq!(at, f.runs("forecast run --data cut.csv --json").json(), "{days}");
    assert_eq!(at["date"][0], "2021-01-09 09:00:00");
    // Each origin of a backtest is such a forecast.
    f.runs("backtest run --from 2021-01-09T08:00 --windows 1 --predictions p.csv");
    let text = f.read("p.csv");
    let row = text.lines().nth(1).expect("a row");
    assert!(
        row.starts_with(&format!("{days},1,2021-01-09 09:00:00,{:?},", float(&at["values"][0][0]))),
        "{row}"
    );
    assert_eq!(
        f.refused("backtest run --from 2021-01-09T08:00 --to 2021-01-08"),
        "the first origin, 2021-01-09 08:00:00, is after the last one, 2021-01-08 00:00:00; exchange them"
    );
    assert_eq!(
        f.refused("backtest run --windows 2 --interval 80"),
        "--interval and backtest: a backtest has no intervals; leave it out"
    );
    let own = f.refused("backtest run --windows 2 --patch 4 --lr 0.1");
    assert!(
        own.starts_with("--lr, --patch and the run run: a run has its own settings; only --data, "),
        "{own}"
    );
    for (at, why) in [
        (
            "2021-01-09T08:30",
            "d.csv: no row of 2021-01-09 08:30:00; the nearest ones are of 2021-01-09 08:00:00 and 2021-01-09 09:00:00",
        ),
        (
            "2022-01-01",
            "d.csv: 2022-01-01 00:00:00 is after the last row, 2021-01-13 11:00:00; a forecast from there would need rows that are not known",
        ),
        ("2020-01-01", "d.csv: 2020-01-01 00:00:00 is before the first row, 2021-01-01 00:00:00"),
        (
            "2021-01-01",
            "d.csv: 1 row up to 2021-01-01 00:00:00 where the forecast needs 32; the earliest possible is 2021-01-02 07:00:00",
        ),
        (
            "soon",
            "`soon` cannot be read as a date of the data; write it like 2021-01-13 11:00:00, or like 2020-01-31 18:00",
        ),
    ] {
        let said = f.refused(&format!("forecast run --at {at}"));
        assert!(said.ends_with(why), "{said}");
    }
    std::fs::remove_file(f.path().join("run/best.safetensors")).expect("removed");
    assert_eq!(
        f.refused("backtest run --windows 2"),
        "run has not been validated yet; finish it with: landfall train --resume run"
    );
    // Several series, of which one has no such row; rows are counted where there are no dates.
    let undated = |rows| {
        csv(rows).lines().map(|l| l.split_once(',').expect("cells").1.to_owned() + "\n").collect::<String>()
    };
    f.write("a.csv", undated(300));
    f.write("b.csv", undated(240));
    f.runs(&format!("{} --data b.csv --max-steps 2 --out two", SMALL.replace("d.csv", "a.csv")));
    let ran = f.runs("forecast two --at 250");
    assert!(ran.err.contains("row 250 is after the last row, 239"), "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 9, "{}", ran.out);
    assert!(f.refused("forecast two --at 2021").contains("a.csv: row 2021 is after the last row, 299"));
}

#[test]
fn fitted_values_are_the_forecasts_of_the_training_windows() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f.runs(&format!("{SMALL} --epochs 1 --out run"));
    for (segment, first, windows) in [("train", 0, 210 - 32 - 8 + 1), ("validation", 210 - 32, 30 - 8 + 1)] {
        let scores =
            f.runs(&format!("evaluate run --segment {segment} --predictions {segment}.csv --json")).json();
        assert_eq!(scores["windows"].as_u64(), Some(windows));
        let all = rows(&f.read(&format!("{segment}.csv")));
        assert_eq!(all.len() as u64, 8 * windows);
        let date = csv(300).lines().nth(1 + first + 32).expect("a row").split(',').next().map(str::to_owned);
        assert_eq!(Some(&all[0][2]), date.as_ref());
        let squared = all.iter().map(|r| (number(&r[3]) - number(&r[4])).powi(2)).sum::<f64>();
        close(squared / all.len() as f64, float(&scores["columns"][0]["mse"]), 1e-4);
        assert_eq!(scores["baselines"].as_array().map(Vec::len), Some(2));
    }
    // The same windows by origins have the same errors.
    let scores = f.runs("evaluate run --json").json();
    let tested = f.runs("backtest run --windows 53 --json").json();
    for key in ["mse", "mae", "rmse", "mase", "smape", "r2"] {
        close(float(&tested[key]), float(&scores[key]), 1e-6);
    }
}
