//! Covariates at the terminal: what is refused and how, and runs with covariates that go on, are evaluated and forecast.

mod program;

use program::Folder;

const HOUR: usize = 24;

/// Rows of an hourly file from row `from` on, with sales that a promotion and an event explain.
fn rows(from: usize, count: usize, columns: &[&str]) -> String {
    let mut text = format!("date,{}\n", columns.join(","));
    for t in from..from + count {
        let (day, hour) = (t / HOUR, t % HOUR);
        let promotion = t * 7919 % 101;
        let event = ["none", "fair", "strike"][t / 5 % 3];
        text += &format!("2024-{:02}-{:02} {hour:02}:00:00", 1 + day / 28, 1 + day % 28);
        for column in columns {
            text += &match *column {
                "sales" => format!(",{}", 2 * promotion + 10 * (t / 5 % 3) + hour),
                "promotion" => format!(",{promotion}"),
                "event" => format!(",{event}"),
                "weather" => format!(",{}", t * 31 % 17),
                other => panic!("no column {other}"),
            };
        }
        text.push('\n');
    }
    text
}

const ALL: [&str; 4] = ["sales", "promotion", "event", "weather"];
const ROWS: usize = 300;
const RUN: &str =
    "train --data d.csv --context 24 --horizon 6 --max-steps 4 --batch 16 --device cpu --model dlinear";
const COVARIATES: &str = "--target sales --known-future promotion,event --categorical event --calendar hour";

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", rows(0, ROWS, &ALL));
    f.write("future.csv", rows(ROWS, 6, &["promotion", "event"]));
    f
}

#[test]
fn columns_that_cannot_be_covariates_are_refused() {
    let f = folder();
    let text = rows(0, ROWS, &ALL);
    f.write(
        "undated.csv",
        text.lines().map(|l| l.split_once(',').expect("a date").1.to_owned() + "\n").collect::<String>(),
    );
    f.write("empty.csv", text.replacen(",none,", ",,", 1));
    for (flags, why) in [
        (
            "--data d.csv --target sales --known-future sales",
            "d.csv: column `sales` is to be forecast, so that it cannot be a covariate too; leave it out of one of the lists",
        ),
        (
            "--data d.csv --known-future sales,promotion,weather",
            "d.csv: every column is a covariate, so that none is left to forecast; leave one out of --known-future, --static or \
             --categorical",
        ),
        (
            "--data d.csv --target sales --known-future promotion --static promotion",
            "d.csv: column `promotion` is named by --known-future and by --static; name it once",
        ),
        (
            "--data d.csv --target sales --static weather",
            "d.csv: column `weather` has one value for each series by --static, but row 2 differs from row 1; name it with \
             --known-future if it is known in advance, else leave it out",
        ),
        (
            "--data d.csv --target sales --known-future event",
            "d.csv: no column of numbers `event` is read (--columns chooses what is); choose from promotion, weather, or give \
             --categorical event if it holds names",
        ),
        (
            "--data d.csv --target sales --categorical holiday",
            "d.csv: no column `holiday` among sales, promotion, event, weather; add it or correct its name",
        ),
        (
            "--data empty.csv --target sales --categorical event",
            "empty.csv:2: column `event` has no value, and a column of names needs one in each row; fill it in",
        ),
        (
            "--data d.csv --target sales --categorical promotion",
            "d.csv: column `promotion` has 101 different values, and at most 64 can be told apart; join rare ones, or leave the \
             column out",
        ),
        (
            "--data undated.csv --target sales --calendar",
            "undated.csv: no dates, and --calendar makes features of them; name the column with --date-column, or leave \
             --calendar out",
        ),
        ("--synthetic demo --static a", "--static and generated data: it belongs to a file; give --data too"),
    ] {
        let given = RUN.replace("--data d.csv", "");
        assert_eq!(f.refused(&format!("{given} {flags} --out run")), why, "{flags}");
    }
}

#[test]
fn a_run_with_covariates_goes_on_and_forecasts_what_its_future_says() {
    let f = folder();
    f.runs(&format!("{RUN} {COVARIATES} --out run"));
    f.write("newer.csv", rows(0, ROWS + 3, &ALL));
    f.write("short.csv", rows(ROWS, 4, &["promotion", "event"]));
    f.write("early.csv", rows(0, 20, &["promotion", "event"]));
    f.write("late.csv", rows(ROWS + 1, 6, &["promotion", "event"]));
    let every_second = |(i, line): (usize, &str)| (i == 0 || i % 2 == 1).then(|| line.to_owned() + "\n");
    f.write(
        "sparse.csv",
        rows(ROWS, 13, &["promotion", "event"])
            .lines()
            .enumerate()
            .filter_map(every_second)
            .collect::<String>(),
    );
    f.write("unnamed.csv", rows(ROWS, 6, &["promotion"]));
    f.write("unknown.csv", rows(ROWS, 6, &["promotion", "event"]).replace(",none", ",parade"));
    f.write("unknown_data.csv", rows(0, ROWS, &ALL).replacen(",none,", ",parade,", 1));
    for (flags, why) in [
        (
            "",
            "series `d`: columns promotion, event=fair, event=none, event=strike are known in advance, and 6 rows after its last \
             (2024-01-13 11:00:00) are forecast; give their values with --future FILE",
        ),
        (
            "--future short.csv",
            "short.csv: series `d` has 4 of the 6 rows after 2024-01-13 11:00:00 that are forecast, and columns promotion, event=fair, \
             event=none, event=strike are known in advance; add the others",
        ),
        (
            "--future late.csv",
            "late.csv: series `d` has 2024-01-13 13:00:00 where 2024-01-13 12:00:00 is forecast; give one row for each date",
        ),
        (
            "--future early.csv",
            "early.csv: series `d` ends at 2024-01-01 19:00:00, and 2024-01-13 12:00:00 to 2024-01-13 17:00:00 are forecast; add \
             a row for each of these dates",
        ),
        (
            "--data newer.csv --future future.csv",
            "future.csv: series `newer` has 3 of the 6 rows after 2024-01-13 14:00:00 that are forecast, and columns promotion, \
             event=fair, event=none, event=strike are known in advance; add the others",
        ),
        (
            "--future sparse.csv",
            "sparse.csv: series `d` has 2024-01-13 14:00:00 where 2024-01-13 13:00:00 is forecast; give one row for each date",
        ),
        (
            "--future unnamed.csv",
            "unnamed.csv: no column `event` among promotion; add it or correct its name",
        ),
        (
            "--future unknown.csv",
            "unknown.csv:2: column `event` has `parade`, which the run was not trained on; it knows fair, none, strike",
        ),
        (
            "--data unknown_data.csv --future future.csv",
            "unknown_data.csv:2: column `event` has `parade`, which the run was not trained on; it knows fair, none, strike",
        ),
    ] {
        assert_eq!(f.refused(&format!("forecast run --device cpu {flags}")), why, "{flags}");
    }
    let forecast = |flags: &str| f.runs(&format!("forecast run --device cpu {flags}")).out;
    let first = forecast("--future future.csv");
    assert_eq!(first.lines().count(), 7, "{first}");
    // Rows before those that are forecast, and the order of columns, make no difference.
    f.write("longer.csv", rows(ROWS - 20, 40, &["weather", "event", "promotion"]));
    assert_eq!(forecast("--future longer.csv"), first);
    f.write("other.csv", rows(ROWS, 6, &["promotion", "event"]).replace(",fair", ",none"));
    assert_ne!(forecast("--future other.csv"), first);
    f.runs("evaluate run --device cpu --predictions p.csv");
    f.runs("report run --device cpu");
    f.runs("train --resume run --max-steps 6 --device cpu");
    // A run's own settings list the calendar's columns.
    f.runs("train --config run/config.toml --out again --device cpu");
    let plan = f.runs("plan --config run/config.toml").out;
    assert!(plan.contains(" 7 channels"), "{plan}");
}

#[test]
fn each_series_has_its_own_future() {
    let f = folder();
    let of = |rows: &str, shop: &str, header: bool| -> String {
        let lines = rows.lines().enumerate().skip(usize::from(!header));
        lines.map(|(i, l)| format!("{l},{}\n", if i == 0 { "shop" } else { shop })).collect()
    };
    let (all, ahead) = (rows(0, ROWS, &ALL), rows(ROWS, 6, &["promotion"]));
    f.write("d.csv", of(&all, "a", true) + &of(&all, "b", false));
    let none: String =
        ahead.lines().map(|l| l.split_once(',').expect("a date").0.to_owned() + ",0\n").collect();
    f.write("future.csv", of(&ahead, "b", true) + &of(&none, "a", false));
    f.write("one.csv", of(&ahead, "a", true));
    f.runs(&format!("{RUN} --target sales --known-future promotion --out run"));
    assert_eq!(
        f.refused("forecast run --device cpu --future one.csv"),
        "one.csv: it has no series `b`; it has a"
    );
    let drawn = f.runs("forecast run --device cpu --future future.csv --plot").out;
    assert!(drawn.starts_with("sales of `a`: "), "{drawn}");
    let out = f.runs("forecast run --device cpu --future future.csv").out;
    let of_shop = |shop: &str| -> Vec<&str> {
        out.lines().filter_map(|l| l.strip_prefix(shop)?.strip_prefix(',')).collect()
    };
    assert_eq!((of_shop("a").len(), of_shop("b").len()), (6, 6), "{out}");
    assert_ne!(of_shop("a"), of_shop("b"));
}

/// What was chosen reads no covariates: a forecast asks for none, and says so where they are given.
#[test]
fn a_forecaster_without_covariates_needs_no_future() {
    let f = Folder::new();
    // The last value is the best forecast of a random walk, and the column known in advance says nothing.
    let (mut walk, mut text) = (0.0, "date,y,x\n".to_owned());
    for t in 0..400_usize {
        walk += ((t * 7919 + 13) % 101) as f64 / 101.0 - 0.5;
        text += &format!(
            "2024-{:02}-{:02} {:02}:00:00,{walk},{}\n",
            1 + t / 672,
            1 + t / 24 % 28,
            t % 24,
            t * 31 % 17
        );
    }
    f.write("d.csv", text);
    let ran = f.runs(
        "train --data d.csv --target y --known-future x --horizon 6 --max-steps 1 --device cpu --out run",
    );
    assert!(ran.out.contains("Forecast with: landfall forecast run\n"), "{}", ran.out);
    let out = f.runs("forecast run --device cpu").out;
    assert_eq!(out.lines().count(), 7, "{out}");
    let future: String = (400..406)
        .map(|t: usize| format!("2024-{:02}-{:02} {:02}:00:00,1\n", 1 + t / 672, 1 + t / 24 % 28, t % 24))
        .collect();
    f.write("future.csv", format!("date,x\n{future}"));
    let ran = f.runs("forecast run --device cpu --future future.csv");
    assert_eq!(ran.out, out);
    assert!(ran.err.contains("reads no covariates: --future changes nothing"), "{}", ran.err);
    // A baseline alone, beside a network that reads covariates.
    let f = folder();
    f.runs(&format!("{RUN} {COVARIATES} --out run"));
    let config = f.read("run/config.toml");
    let alone =
        config.replace("share = 1.0", "share = 0.0\nrepeats = 1").replace("share = 0.5", "share = 0.0");
    assert_ne!(alone, config);
    f.write("run/config.toml", alone);
    let out = f.runs("forecast run --device cpu").out;
    let last = rows(ROWS - 1, 1, &["sales"]);
    let last: f64 = last.trim_end().rsplit(',').next().and_then(|x| x.parse().ok()).expect("a number");
    for line in out.lines().skip(1) {
        let (_, value) = line.rsplit_once(',').expect("a value");
        assert!(
            (value.parse::<f64>().expect("a number") - last).abs() < 1e-4,
            "{line}: the last value is {last}"
        );
    }
}
