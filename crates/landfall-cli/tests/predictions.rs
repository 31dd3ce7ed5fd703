//! `landfall evaluate --predictions`: the file holds what the errors are computed from.

mod program;

use program::{Folder, SMALL, csv};

/// Header and rows.
fn table(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut lines = text.lines().map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
    (lines.next().expect("a header"), lines.collect())
}

fn number(cell: &str) -> f64 {
    cell.parse().expect(cell)
}

/// The standard deviations of a run's first series.
fn deviations(f: &Folder, run: &str) -> Vec<f64> {
    let config: toml::Table = f.read(&format!("{run}/config.toml")).parse().expect("TOML");
    let std = config["scaler"][0]["std"].as_array().expect("a list");
    std.iter().map(|x| x.as_float().expect("a number")).collect()
}

#[test]
fn the_file_holds_what_the_errors_are_computed_from() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f.runs(&format!("{SMALL} --epochs 2 --lr 0.003 --schedule constant --out run"));
    let scores = f.runs("evaluate run --predictions p.csv --json").json();
    let (header, rows) = table(&f.read("p.csv"));
    assert_eq!(header, ["window", "step", "date", "load", "load_actual", "wind", "wind_actual"]);
    let windows = usize::try_from(scores["windows"].as_u64().expect("a number")).expect("small");
    assert_eq!(rows.len(), windows * 8);
    let std = deviations(&f, "run");
    let (mut squared, mut absolute) = (0.0, 0.0);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!((&row[0], &row[1]), (&(i / 8).to_string(), &(i % 8 + 1).to_string()));
        for (c, std) in std.iter().enumerate() {
            let error = (number(&row[3 + 2 * c]) - number(&row[4 + 2 * c])) / std;
            squared += error * error;
            absolute += error.abs();
        }
    }
    let n = (rows.len() * 2) as f64;
    for (name, sum) in [("mse", squared), ("mae", absolute)] {
        let score = scores[name].as_f64().expect("a number");
        assert!((sum / n / score - 1.0).abs() < 1e-5, "{name}: {} and {score}", sum / n);
    }
    // The last step of the last window is the last row of the data, and the actual values are the file's.
    let last = csv(300).lines().last().expect("a row").to_owned();
    let row = rows.last().expect("rows");
    assert_eq!(format!("{},{:.4},{:.4}", row[2], number(&row[4]), number(&row[6])), last);

    assert_eq!(f.refused("evaluate run --predictions p.csv"), "p.csv exists already; choose another file");
    let ran = f.run("evaluate run --predictions nosuch/p.csv");
    let why = f.why_not("nosuch/p.csv");
    let said = format!("error: cannot write nosuch/p.csv: {why}; choose another file\n");
    assert_eq!((ran.code, ran.notes()), (Some(2), said.as_str()));
}

#[test]
fn series_rows_and_quantiles_have_columns() {
    let f = Folder::new();
    // Without dates, and longer than its twin by one row.
    let undated = |rows| {
        csv(rows).lines().map(|l| l.split_once(',').expect("cells").1.to_owned() + "\n").collect::<String>()
    };
    f.write("a.csv", undated(300));
    f.write("b, c.csv", undated(301));
    let mut train = f.command(&format!(
        "{} --max-steps 2 --target wind --quantiles 0.1,0.5,0.9 --out run --data",
        SMALL.replace("d.csv", "a.csv")
    ));
    assert!(train.arg("b, c.csv").output().expect("it starts").status.success());
    f.runs("evaluate run --predictions p.csv");
    let text = f.read("p.csv");
    assert!(
        text.starts_with("series,window,step,row,wind,wind_q0.1,wind_q0.5,wind_q0.9,wind_actual\na,0,1,"),
        "{text:.300}"
    );
    let (of_a, of_b): (Vec<&str>, Vec<&str>) = text.lines().skip(1).partition(|l| l.starts_with("a,"));
    assert!(of_b.iter().all(|l| l.starts_with("\"b, c\",")));
    assert!(of_b[0].starts_with("\"b, c\",0,1,"), "windows are counted within their series: {}", of_b[0]);
    assert!(of_a.last().expect("rows").split(',').nth(3) == Some("299"), "rows are counted from 0");
    let (_, rows) = table(&of_a.join("\n"));
    for row in rows {
        let [point, low, middle, high] = [4, 5, 6, 7].map(|c| number(&row[c]));
        assert!(point == middle && low <= middle && middle <= high, "{row:?}");
    }
}

/// Levels that cross are sorted before they are forecast, and it is the sorted ones that are scored.
#[test]
fn quantiles_are_scored_as_they_are_forecast() {
    let f = Folder::new();
    f.write("d.csv", csv(400));
    f.runs(&format!("{SMALL} --max-steps 1 --target wind --quantiles 0.1,0.5,0.9 --out run"));
    let scores = f.runs("evaluate run --predictions p.csv --json").json();
    let (header, rows) = table(&f.read("p.csv"));
    let [point, actual] =
        ["wind", "wind_actual"].map(|name| header.iter().position(|h| h == name).expect(name));
    let squares = rows.iter().map(|row| (number(&row[point]) - number(&row[actual])).powi(2));
    let (found, told) =
        (squares.sum::<f64>() / rows.len() as f64, scores["columns"][0]["mse"].as_f64().expect("an error"));
    assert!((found - told).abs() < 1e-5 * told, "the file has {found}, the score is {told}");
}

#[test]
fn a_baseline_has_such_a_file_too() {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    let words =
        "evaluate --model seasonal-naive --period 2 --data d.csv --context 4 --horizon 3 --target load";
    let scores = f.runs(&format!("{words} --predictions p.csv --json")).json();
    let (header, rows) = table(&f.read("p.csv"));
    assert_eq!(header, ["window", "step", "date", "load", "load_actual"]);
    assert_eq!(scores["windows"].as_u64(), Some(rows.len() as u64 / 3));
    // Windows are a row apart: the first step of a window is what was two rows before.
    for pair in rows.chunks_exact(3).collect::<Vec<_>>().windows(3) {
        assert_eq!(pair[0][0][4], pair[2][0][3]);
        assert_eq!(pair[2][0][3], pair[2][2][3]);
    }
    assert_eq!(
        f.refused(&format!("{words} --predictions p.csv")),
        "p.csv exists already; choose another file"
    );
}

#[test]
fn a_forecast_is_drawn_for_a_terminal_and_errors_are_coloured_where_colours_are_wanted() {
    let f = Folder::new();
    f.write("d.csv", csv(400));
    f.runs(&format!("{SMALL} --max-steps 1 --out run"));
    let drawn = f.runs("forecast run --plot").out;
    let lines: Vec<&str> = drawn.lines().collect();
    assert!(lines[0].starts_with("load: 2021-01-16 16:00:00 to 2021-01-17 15:00:00 (dotted)"), "{drawn}");
    assert_eq!(lines.len(), 11, "{drawn}");
    let width = lines[1].chars().count();
    assert!(lines[1..].iter().all(|line| line.contains('┤') && line.chars().count() == width), "{drawn}");

    let colours = |name: &str, value: &str| {
        let ran = f.command("forecast nowhere").env(name, value).output().expect("it starts");
        String::from_utf8(ran.stderr).expect("UTF-8").starts_with("\u{1b}[")
    };
    assert!(colours("CLICOLOR_FORCE", "1"));
    // A pipe.
    assert!(!colours("NO_COLOR", "1") && !colours("LANG", "C"));
}
