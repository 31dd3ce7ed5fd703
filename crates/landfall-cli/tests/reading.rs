//! What a run keeps of how its data is written, through each command that reads later files.

mod program;

use program::Folder;
use std::fmt::Write as _;

const TRAIN: &str = "--context 7 --horizon 2 --max-steps 3 --device cpu --threads 1 --model nlinear";

/// Days from one on, with the values of `cell` in a column `y` and prices in whole numbers.
fn days(mark: char, from: i64, rows: usize, cell: impl Fn(usize) -> String) -> String {
    every(1, mark, from, rows, cell)
}

fn every(step: i64, mark: char, from: i64, rows: usize, cell: impl Fn(usize) -> String) -> String {
    let mut text = format!("day{mark}y{mark}price\n");
    for i in 0..rows {
        let day = chrono::NaiveDate::from_ymd_opt(2024, 1, 1).expect("a day")
            + chrono::TimeDelta::days(from + step * i64::try_from(i).expect("few"));
        writeln!(text, "{}{mark}\"{}\"{mark}{}", day.format("%d/%m/%Y"), cell(i), 3 + i % 4)
            .expect("written");
    }
    text
}

fn german(i: usize) -> String {
    ["1.234.567", "600.013", "500.200", "400.300"][i % 4].to_owned()
}

/// Never above a thousand thousands.
fn newer(i: usize) -> String {
    ["999.999", "600.013", "500.200", "400.300"][i % 4].to_owned()
}

fn plain(i: usize) -> String {
    newer(i).replace('.', "")
}

#[test]
fn later_files_are_read_as_the_data_of_the_run() {
    let f = Folder::new();
    f.write("d.csv", days(';', 0, 48, german));
    f.runs(&format!("train --data d.csv --target y {TRAIN} --out run"));
    let config = f.read("run/config.toml");
    for kept in
        ["decimal = \",\"", "thousands = \".\"", "frequency = \"daily\"", "date-format = \"%d/%m/%Y\""]
    {
        assert!(config.contains(kept), "{kept}: {config}");
    }
    f.write("plain.csv", days(';', 48, 48, plain));
    for (name, mark) in [("n.csv", ';'), ("t.csv", '\t'), ("c.csv", ',')] {
        f.write(name, days(mark, 48, 48, newer));
        for command in ["forecast run --device cpu", "evaluate run --device cpu --json", "report run"] {
            let of = |file: &str| {
                let out = if command.starts_with("report") {
                    format!(" --out {name}-{file}.html")
                } else {
                    String::new()
                };
                let ran = f.runs(&format!("{command} --data {file}{out}"));
                ran.out.replace(&format!("{name}-"), "").replace(file, "FILE")
            };
            assert_eq!(of(name), of("plain.csv"), "{command} {name}");
        }
        let backtest =
            |file: &str| f.runs(&format!("backtest run --data {file} --windows 3 --step 2 --json")).json();
        assert_eq!(backtest(name)["mse"], backtest("plain.csv")["mse"], "{name}");
    }
    // Another mark, another form of dates, another frequency.
    for (text, why) in [
        (
            days(';', 48, 48, |_| "1,234.5".to_owned()),
            "w.csv:2: column `y`: `1,234.5` is not a number; the run's numbers",
        ),
        (
            days(';', 48, 48, newer).replace('/', "."),
            "w.csv:2: column `day`: date `18.02.2024` cannot be read; write it like 31/12/2024",
        ),
        (
            every(7, ';', 48, 48, newer),
            "w.csv: dates are weekly (Sunday), and those of the run are daily; give data of the run's",
        ),
    ] {
        f.write("w.csv", text);
        for command in
            ["forecast run --device cpu", "evaluate run --device cpu", "backtest run --windows 3 --step 2"]
        {
            let ran = f.run(&format!("{command} --data w.csv"));
            assert_eq!(ran.code, Some(2), "{command}");
            assert!(ran.err.contains(why), "{command}: {}", ran.err);
        }
    }
}

#[test]
fn rows_to_forecast_are_read_as_the_data_of_the_run() {
    let f = Folder::new();
    let price = |text: String| text.replace(";3\n", ";1.234.567\n").replace(";4\n", ";600.013\n");
    f.write("d.csv", price(days(';', 0, 60, german)));
    let flags = TRAIN.replace("nlinear", "tide");
    f.runs(&format!("train --data d.csv --target y --known-future price {flags} --out run"));
    let ahead = |price: &str| format!("day;price\n01/03/2024;{price}\n02/03/2024;{price}\n");
    f.write("f.csv", ahead("600.013"));
    f.write("p.csv", ahead("600013"));
    let forecast = |file: &str| f.runs(&format!("forecast run --device cpu --future {file}")).out;
    assert_eq!(forecast("f.csv"), forecast("p.csv"));
}

#[test]
fn flags_say_what_no_number_says() {
    let f = Folder::new();
    f.write("d.csv", days(';', 0, 48, newer));
    let ran = f.runs(&format!("train --data d.csv --target y {TRAIN} --out a"));
    assert!(ran.out.contains("if it is a point, give --decimal ."), "{}", ran.out);
    f.runs(&format!("train --data d.csv --target y {TRAIN} --decimal . --out b"));
    let first = |run: &str| {
        let out = f.runs(&format!("forecast {run} --device cpu")).out;
        let cell = out.lines().nth(1).and_then(|line| line.split(',').next_back()).map(str::parse::<f64>);
        cell.expect("a row").expect("a number")
    };
    assert!((900.0..1100.0).contains(&(first("a") / first("b"))), "{} {}", first("a"), first("b"));
    let ran = f.run(&format!("train --data d.csv {TRAIN} --decimal x --out c"));
    assert!(ran.err.contains("give . or ,"), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn requests_are_read_as_the_data_of_the_run() {
    use program::server::Server;
    let f = Folder::new();
    f.write("d.csv", days(';', 0, 48, german));
    f.runs(&format!("train --data d.csv --target y {TRAIN} --out run"));
    let server = Server::start(&f, "run");
    let answer = |text: &str| server.csv(text);
    assert_eq!(answer(&days(';', 48, 20, newer)).body, answer(&days(';', 48, 20, plain)).body);
    assert_eq!(answer(&days(',', 48, 20, newer)).body, answer(&days(',', 48, 20, plain)).body);
    let weekly = answer(&every(7, ';', 48, 20, newer));
    assert!(weekly.body.contains("those of the run are daily"), "{}", weekly.body);
}
