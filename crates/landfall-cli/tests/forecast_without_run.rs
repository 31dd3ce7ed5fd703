//! `landfall forecast` without a run: the pretrained forecaster on files.

mod program;

use program::{Folder, csv};

#[test]
fn a_file_is_forecast_without_a_training() {
    let f = Folder::new();
    f.write("d.csv", csv(240));
    let ran = f.runs("forecast --data d.csv --horizon 24 --device cpu --threads 1");
    assert!(ran.err.contains("nothing was trained on this data"), "{}", ran.err);
    let lines: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0].join(","), "date,load,load-lo-80,load-hi-80,wind,wind-lo-80,wind-hi-80");
    assert_eq!((lines.len(), lines[1][0]), (25, "2021-01-11 00:00:00"));
    let number = |cell: &str| cell.parse::<f64>().expect("a number");
    // A day with noise of at most one goes on, and the intervals hold it.
    for (hour, line) in lines[1..].iter().enumerate() {
        let wave = 50.5 + 10.0 * (std::f64::consts::TAU * hour as f64 / 24.0).sin();
        let [load, low, high] = [1, 2, 3].map(|at| number(line[at]));
        assert!((load - wave).abs() < 1.0 && low < load && load < high, "hour {hour}: {line:?} {wave}");
    }
    // The same rows as they were known before, and from a frame of other columns.
    f.write("part.csv", csv(216));
    let part = f.runs("forecast --data part.csv --horizon 5 --target load --device cpu --threads 1");
    assert!(part.err.contains("reads no covariates: wind left out"), "{}", part.err);
    let before = f.runs(
        "forecast --data d.csv --horizon 5 --target load --at 2021-01-09T23:00 --device cpu --threads 1",
    );
    assert_eq!(before.out, part.out);
    let object = f.runs(
        "forecast --data d.csv --horizon 3 --quantiles 0.1,0.9 --interval 80,95 --json --device cpu --threads 1",
    );
    let object = object.json();
    assert_eq!(
        object["quantiles"][0][0], object["intervals"][0][0][0],
        "the 10 % quantile is the bound of 80 %"
    );
    assert_eq!(object["interval_levels"], serde_json::json!([80.0, 95.0]));
}

#[test]
fn short_missing_and_large_values_are_forecast() {
    let f = Folder::new();
    let rows = |values: &[&str]| {
        let row = |(i, v): (usize, &&str)| format!("2024-01-{:02},{v}\n", i + 1);
        format!("date,y\n{}", values.iter().enumerate().map(row).collect::<String>())
    };
    let forecast = |values: &[&str]| {
        f.write("d.csv", rows(values));
        let ran = f.runs("forecast --data d.csv --horizon 2 --no-interval --device cpu --threads 1");
        let cells: Vec<String> =
            ran.out.lines().skip(1).map(|l| l.split(',').nth(1).expect("y").to_owned()).collect();
        cells.iter().map(|cell| cell.parse().expect("a number")).collect::<Vec<f64>>()
    };
    assert_eq!(forecast(&["5.5"; 3]), [5.5, 5.5]);
    assert!(forecast(&["1", "2", "3"]).iter().all(|y| (2.0..8.0).contains(y)));
    let week = ["1", "5", "2", "7", "3", "9", "4"];
    let plain: Vec<&str> = week.iter().cycle().take(28).copied().collect();
    let (small, large) = (forecast(&plain), {
        let large: Vec<String> = plain.iter().map(|v| format!("{v}e30")).collect();
        forecast(&large.iter().map(String::as_str).collect::<Vec<_>>())
    });
    for (a, b) in small.iter().zip(&large) {
        assert!((b / 1e30 / a - 1.0).abs() < 1e-4, "{a} {b}");
    }
    // A missing value is missing, and not the line between its neighbours.
    let mut gap = plain.clone();
    gap[24] = "";
    let mut line = plain;
    line[24] = "5";
    assert_ne!(forecast(&gap), forecast(&line));
    assert!((forecast(&gap)[0] - 1.0).abs() < 1.0, "{:?}", forecast(&gap));
}

#[test]
fn what_cannot_be_forecast_without_a_run_is_said() {
    let f = Folder::new();
    f.write("d.csv", csv(100));
    f.write("none.csv", "date,y\n2024-01-01,\n2024-01-02,\n");
    for (words, said) in [
        ("forecast", "a run directory or --data is needed"),
        ("forecast --data d.csv", "--horizon is needed"),
        ("forecast --data d.csv --horizon 513 --device cpu", "the horizon is 513; it must be 1 to 512 rows"),
        ("forecast --data d.csv --horizon 3 --future d.csv", "they read no covariates"),
        ("forecast --data d.csv --horizon 3 --weights last", "only a run has a use for it"),
        ("forecast --data d.csv --horizon 3 --quantiles 1.5", "levels are above 0 and below 1"),
        ("forecast --data d.csv --horizon 3 --interval 100", "levels are percent"),
        ("forecast --data d.csv --horizon 3 --pretrained d.csv", "not a whole safetensors file"),
        ("forecast --data none.csv --horizon 3", "no numeric column"),
        ("forecast run --horizon 3", "--horizon and a run directory: a run has its own; leave it out"),
    ] {
        let error = f.refused(words);
        assert!(error.contains(said), "{words}: {error}");
    }
}

#[test]
fn the_pretrained_forecaster_is_reproduced_by_onnxruntime() {
    let f = Folder::new();
    let wave = |rows: usize, size: f64, place: f64| -> Vec<f64> {
        (0..rows)
            .map(|i| {
                size * ((i as f64 * 0.52).sin() + 0.01 * i as f64 + ((i * 7919) % 101) as f64 / 200.0) + place
            })
            .collect()
    };
    // Seen in powers, as they are, and a constant.
    let series =
        [wave(24, 1.0, 4.0), wave(80, 10.0, 50.0), wave(200, 1.0, 0.0), wave(1500, 1e6, 0.0), vec![5.5; 30]];
    let written = f.runs("export --onnx z.onnx --json").json();
    assert_eq!(written["properties"]["context"], "1024");
    assert_eq!(f.refused("export --onnx z.onnx"), "z.onnx exists already; choose another file");
    assert!(f.refused("export --hugging-face z").contains("a run directory is needed"));
    let mut cases = Vec::new();
    for (number, values) in series.iter().enumerate() {
        let text: String = values.iter().map(|y| format!("{y:?}\n")).collect();
        f.write("d.csv", format!("y\n{text}"));
        let levels = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9";
        let words = format!(
            "forecast --data d.csv --horizon 128 --quantiles {levels} --no-interval --json --device cpu"
        );
        let object = f.runs(&words).json();
        let forecast = program::onnx::rows(&object["values"]).concat();
        let quantiles = program::onnx::levels(&object["quantiles"]).concat();
        let last = &values[values.len().saturating_sub(1024)..];
        let mut context = vec![f64::NAN; 1024 - last.len()];
        context.extend(last);
        let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        let size = if high > low { high - low } else { 1.0 };
        cases.push(serde_json::json!({
            "name": format!("series {number}"),
            "model": f.path().join("z.onnx"),
            "inputs": {"context": [context.clone(), context]},
            "outputs": {"forecast": [forecast.clone(), forecast], "quantiles": [quantiles.clone(), quantiles]},
            "scale": [size],
        }));
    }
    // 1e-6 of the range was measured.
    program::onnx::compare(&f, &cases, 1e-5);
}
