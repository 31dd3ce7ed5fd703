//! A run with a time limit: what fits in forecasts, and the run's settings make it again without the limit.

mod program;

use program::Folder;
use serde_json::Value;
use std::time::Instant;

/// Hours of so many columns with a season of a day.
fn hours(rows: usize, columns: usize) -> String {
    let mut text = "date".to_owned();
    (0..columns).for_each(|column| text += &format!(",c{column}"));
    for row in 0..rows {
        text += &format!("\n2020-{:02}-{:02} {:02}:00", 1 + row / 24 / 28, 1 + row / 24 % 28, row % 24);
        for column in 0..columns {
            let season = (std::f64::consts::TAU * (row + 3 * column) as f64 / 24.0).sin();
            let noise = ((row * 7919 + column * 104_729) % 101) as f64 / 101.0;
            text += &format!(",{:.3}", 10.0 * season + noise);
        }
    }
    text + "\n"
}

#[test]
fn what_does_not_fit_is_left_out_and_named_and_the_settings_make_the_same_run() {
    let f = Folder::new();
    f.write("d.csv", hours(4000, 3));
    let begun = Instant::now();
    let ran = f.runs("train --data d.csv --horizon 24 --device cpu --threads 1 --time-limit 1s --out run");
    // Of a second nothing is asserted but that minutes of steps are not taken.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    assert!(ran.out.contains("Left out: patchtst, whose "), "{}", ran.out);
    let choice: Value = serde_json::from_str(&f.read("run/choice.json")).expect("JSON");
    let left_out = choice["left_out"].as_array().expect("a list");
    assert!(left_out[0].as_str().expect("a sentence").starts_with("patchtst, whose "), "{choice}");
    let config = f.read("run/config.toml");
    assert!(!config.contains("time-limit"), "{config}");
    assert!(config.contains("candidates = [\"nlinear\""), "{config}");
    assert!(config.contains("\nensemble = "), "{config}");
    let rows = f.runs("forecast run").out;
    assert_eq!(rows.lines().count(), 25, "{rows}");
    f.runs("evaluate run");
    // However fast the machine is by then.
    f.runs("train --config run/config.toml --out again");
    assert_eq!(f.runs("forecast again").out, rows);
}

#[test]
fn a_long_limit_changes_nothing() {
    let f = Folder::new();
    f.write("d.csv", hours(400, 1));
    let words = "train --data d.csv --horizon 12 --max-steps 4 --device cpu --threads 1 --out";
    f.runs(&format!("{words} without"));
    f.runs(&format!("{words} limited --time-limit 1h"));
    assert_eq!(f.read("limited/choice.json"), f.read("without/choice.json"));
    assert_eq!(f.runs("forecast limited").out, f.runs("forecast without").out);
}

#[test]
fn a_limit_is_a_time_and_of_the_default_recipe() {
    let f = Folder::new();
    f.write("d.csv", hours(400, 1));
    for wrong in ["0", "5d", "-1s", "soon"] {
        let told = f.refused(&format!("train --data d.csv --time-limit={wrong}"));
        assert!(told.contains("give a time above 0, as in 60s, 5m or 1h"), "{told}");
    }
    let told = f.refused("train --data d.csv --time-limit 5m --preset patchtst-42");
    assert!(told.contains("--time-limit 300s and --preset"), "{told}");
    f.write("c.toml", "data = \"d.csv\"\ntime-limit = \"soon\"\n");
    let told = f.refused("train --config c.toml");
    assert!(told.contains("give a time above 0"), "{told}");
}
