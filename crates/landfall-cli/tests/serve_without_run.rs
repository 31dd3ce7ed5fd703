//! `landfall serve` without a run: the pretrained forecaster continues what requests hold, as `landfall forecast` does.
#![cfg(unix)]

mod program;

use program::server::{Answer, Server};
use program::{Folder, csv};
use serde_json::{Value, json};

/// Of a network that is too small to be good.
const RECIPE: &str = r#"
seed = 1
steps = 2

[network]
patch = 8
context = 64
horizon = 16
width = 24
layers = 1
heads = 3

[optimizer]
lr = 1e-3
warm_up = 1
constant = 0.5
betas = { first = 0.9, second = 0.98 }
weight_decay = 0.01
clip = 1.0
average = 0.5
dtype = "f32"

[simulation]
seed = 1
without = []
rows = 96
series = 64
steps = 2

[validation]
seed = 7
series = 16
horizon = 8
every = 2

[crops]
hidden_crops = 0.3
hidden_rows = 0.2
logarithms = 0.5
decay = 8.0

[[crops.lengths]]
windows = 16
shortest = 3
context = 64
horizon = 16
"#;

const JSON_OF_CSV: &str = "Content-Type: text/csv\r\nAccept: application/json\r\n";

fn of_csv(server: &Server, query: &str, text: &str) -> Answer {
    server.post(&format!("/forecast{query}"), "Content-Type: text/csv\r\n", text)
}

fn of_json(server: &Server, query: &str, body: &Value) -> Answer {
    server.post(&format!("/forecast{query}"), "Content-Type: application/json\r\n", &body.to_string())
}

/// The cells of a CSV's columns.
fn columns(text: &str) -> Value {
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split(',').collect()).collect();
    let numbers = |c: usize| rows.iter().map(|r| r[c].parse::<f64>().expect("a number")).collect::<Vec<_>>();
    json!({"dates": rows.iter().map(|r| r[0]).collect::<Vec<_>>(), "columns": {"load": numbers(1), "wind": numbers(2)}})
}

/// The values and bounds of a forecast of one column with one interval.
fn numbers(forecast: &Value) -> Vec<f64> {
    let lists = [&forecast["values"][0], &forecast["intervals"][0][0][0], &forecast["intervals"][0][0][1]];
    let numbers = lists.iter().flat_map(|list| list.as_array().expect("a list"));
    numbers.map(|x| x.as_f64().expect("a number")).collect()
}

#[test]
fn unknown_series_are_forecast_as_the_program_does() {
    let f = Folder::new();
    f.write("d.csv", csv(240));
    let text = f.read("d.csv");
    let server = Server::start(&f, "");
    let forecast = |flags: &str| f.runs(&format!("forecast --data d.csv --device cpu --threads 2 {flags}"));
    assert_eq!(of_csv(&server, "?horizon=24", &text).body, forecast("--horizon 24").out);
    // More than one pass of the network.
    assert_eq!(
        of_csv(&server, "?horizon=140&interval=none", &text).body,
        forecast("--horizon 140 --no-interval").out
    );
    let query = "?horizon=5&interval=50,95&quantiles=0.1,0.9&target=wind";
    let told = forecast("--horizon 5 --interval 50,95 --quantiles 0.1,0.9 --target wind --json").json();
    let object = columns(&text);
    let rows: Vec<Value> = (0..240)
        .map(|i| json!({"date": object["dates"][i], "load": object["columns"]["load"][i], "wind": object["columns"]["wind"][i]}))
        .collect();
    for answer in [
        of_json(&server, query, &object),
        of_json(&server, query, &json!({"rows": rows})),
        server.post(&format!("/forecast{query}"), JSON_OF_CSV, &text),
    ] {
        let answer = answer.json();
        let one = &answer["forecasts"][0];
        for (key, own) in
            [("date", "dates"), ("values", "values"), ("quantiles", "quantiles"), ("intervals", "intervals")]
        {
            assert_eq!(one[own], told[key], "{own}");
        }
        for key in ["columns", "levels", "interval_levels"] {
            assert_eq!(answer[key], told[key], "{key}");
        }
        let notes = answer["notes"].to_string();
        assert!(notes.contains("reads no covariates: load left out"), "{notes}");
    }
    assert_eq!(server.get("/health").json(), json!({"status": "ok", "forecaster": "zero-shot"}));
    let model = server.get("/model").json();
    assert_eq!(
        (
            &model["forecaster"],
            &model["rows"],
            &model["context"],
            &model["longest_horizon"],
            &model["weights"]
        ),
        (&json!("zero-shot"), &json!(1), &json!(1024), &json!(512), &Value::Null)
    );
    let help = server.get("/").body;
    assert!(help.contains(&format!("curl 'http://{}/forecast?horizon=12'", server.address)), "{help}");
}

#[test]
fn several_series_are_told_apart_and_forecast_at_once() {
    let f = Folder::new();
    let server = Server::start(&f, "");
    let one = columns(&csv(200));
    let histories: Vec<Value> = (0..20)
        .map(|i| {
            let load = one["columns"]["load"].as_array().expect("a list");
            let load: Vec<f64> =
                load[i..].iter().map(|x| x.as_f64().expect("a number") * (i + 1) as f64).collect();
            json!({"columns": {"load": load}})
        })
        .collect();
    let together = of_json(&server, "?horizon=7", &json!({"histories": histories})).json();
    std::thread::scope(|scope| {
        for (i, history) in histories.iter().enumerate() {
            let (server, together) = (&server, &together);
            scope.spawn(move || {
                // Others ask for other horizons meanwhile.
                let more = of_json(server, &format!("?horizon={}", 8 + i % 3), history).json();
                let alone = of_json(server, "?horizon=7", history).json();
                let (one, alone) = (&together["forecasts"][i], &alone["forecasts"][0]);
                assert_eq!(one["series"], format!("history {}", i + 1));
                // What is forecast at once is summed in another order.
                let (one, alone) = (numbers(one), numbers(alone));
                assert_eq!((one.len(), alone.len()), (21, 21));
                let most = one.iter().zip(&alone).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(most < 1e-5 * 20.0 * (i + 1) as f64, "{most}: {one:?} {alone:?}");
                assert_eq!(more["forecasts"][0]["values"][0].as_array().map(Vec::len), Some(8 + i % 3));
            });
        }
    });
    let rows = |names: [&str; 2]| {
        let row = |i: usize| format!("2024-01-{:02},{},{}\n", i / 2 + 1, names[i % 2], 10 + i % 7);
        format!("ds,unique_id,y\n{}", (0..40).map(row).collect::<String>())
    };
    let answer = of_csv(&server, "?horizon=2&interval=none", &rows(["north", "south"])).body;
    assert!(answer.starts_with("series,ds,y\nnorth,2024-01-21,"), "{answer}");
    f.write("d.csv", rows(["north", "south"]));
    let forecast = "forecast --data d.csv --horizon 2 --no-interval --device cpu --threads 2";
    assert_eq!(answer, f.runs(forecast).out);
    let named = json!({"series": "shop", "columns": {"y": [1, 2, 3]}});
    assert_eq!(of_json(&server, "?horizon=2", &named).json()["forecasts"][0]["series"], "shop");
    let named = server.post("/forecast?horizon=2&series=caf%C3%A9", JSON_OF_CSV, "y\n1\n2\n").json();
    assert_eq!(named["forecasts"][0]["series"], "café");
    // Numbers in JSON may name series too.
    let of = |i: usize| json!({"ds": format!("2024-01-{:02}", i / 2 + 1), "unique_id": i % 2 + 1, "y": 10 + i % 7});
    let long = json!({"rows": (0..40).map(of).collect::<Vec<_>>()});
    let answer = of_json(&server, "?horizon=2", &long).json();
    let names: Vec<&Value> =
        answer["forecasts"].as_array().expect("forecasts").iter().map(|one| &one["series"]).collect();
    assert_eq!((json!(names), &answer["columns"]), (json!(["1", "2"]), &json!(["y"])));
}

#[test]
fn short_constant_missing_and_large_values_are_forecast() {
    let f = Folder::new();
    let server = Server::start(&f, "");
    let forecast = |values: &Value| {
        let answer = of_json(&server, "?horizon=2", &json!({"columns": {"y": values}})).json();
        let values = answer["forecasts"][0]["values"][0].as_array().expect("a list");
        values.iter().map(|x| x.as_f64().expect("a number")).collect::<Vec<f64>>()
    };
    assert_eq!(forecast(&json!([5.5, 5.5, 5.5])), [5.5, 5.5]);
    assert_eq!(forecast(&json!([7])), [7.0, 7.0]);
    assert!(forecast(&json!([1, 2, 3])).iter().all(|y| (2.0..8.0).contains(y)));
    let week = [1.0, 5.0, 2.0, 7.0, 3.0, 9.0, 4.0];
    let plain: Vec<f64> = week.iter().cycle().take(28).copied().collect();
    let large: Vec<f64> = plain.iter().map(|v| v * 1e30).collect();
    for (a, b) in forecast(&json!(plain)).iter().zip(forecast(&json!(large))) {
        assert!((b / 1e30 / a - 1.0).abs() < 1e-4, "{a} {b}");
    }
    let ends = of_json(&server, "?horizon=2", &json!({"columns": {"y": [1.7e308, -1.7e308, 3]}})).json();
    assert!(numbers(&ends["forecasts"][0]).iter().all(|x| x.is_finite()), "{ends}");
    let mut gap = json!(plain);
    gap[24] = Value::Null;
    assert!((forecast(&gap)[0] - 1.0).abs() < 1.0, "{:?}", forecast(&gap));
    // A column of one value beside others goes on, and what holds no numbers is said to be left out.
    let text: Vec<&str> = (0..28).map(|_| "red").collect();
    let body =
        json!({"columns": {"y": plain, "flat": vec![3; 28], "colour": text, "none": vec![Value::Null; 28]}});
    let answer = of_json(&server, "?horizon=2&interval=none", &body).json();
    assert_eq!(
        (&answer["columns"], &answer["forecasts"][0]["values"][0]),
        (&json!(["flat", "y"]), &json!([3.0, 3.0]))
    );
    let notes = answer["notes"].to_string();
    assert!(notes.contains("colour") && notes.contains("none"), "{notes}");
}

#[test]
fn what_cannot_be_forecast_is_refused_in_words() {
    let f = Folder::new();
    let server = Server::start(&f, "--max-body 1 --max-histories 3");
    let says = |answer: &Answer, code: u16, words: &str| {
        assert_eq!(answer.code, code, "{}", answer.body);
        assert!(answer.error().contains(words), "{}", answer.error());
    };
    let y = json!({"columns": {"y": [1, 2, 3]}});
    for (query, code, words) in [
        ("", 400, "the request says no horizon; POST /forecast takes horizon=N"),
        ("?horizon=", 400, "?horizon= is \"\""),
        ("?horizon=-1", 400, "?horizon= is \"-1\""),
        ("?horizon=0", 422, "the horizon is 0; it must be 1 to 512 rows"),
        ("?horizon=513", 422, "the horizon is 513; it must be 1 to 512 rows"),
        ("?horizon=3&horizon=4", 400, "each once"),
        ("?horizon=3&rows=4", 400, "POST /forecast takes"),
        ("?horizon=3&interval=100", 422, "levels are percent"),
        ("?horizon=3&interval=wide", 400, "\"wide\", which is no number"),
        ("?horizon=3&quantiles=1.5", 422, "levels are above 0 and below 1"),
        ("?horizon=3&quantiles=nan", 422, "levels are above 0 and below 1"),
        ("?horizon=3&target=z", 422, "`z`"),
        ("?horizon=3&series=%zz", 400, "?series= is not percent-encoded"),
    ] {
        let answer = of_json(&server, query, &y);
        says(&answer, code, words);
        assert!(!answer.error().contains("--"), "{query}: {}", answer.error());
    }
    let ask = |body: &Value| of_json(&server, "?horizon=3", body);
    says(&ask(&json!({})), 422, "no `columns` and no `rows`; give one of them");
    says(&ask(&json!({"columns": {}})), 422, "the history");
    says(&ask(&json!({"columns": {"y": []}})), 422, "the history");
    says(&ask(&json!({"columns": {"y": [null, null]}})), 422, "no numeric column");
    says(&ask(&json!({"columns": {"y": ["a", "b"]}})), 422, "no numeric column");
    says(
        &ask(&json!({"columns": {"y": [1, 2], "z": [1]}})),
        422,
        "column `z` has 1 values and the series 2 rows",
    );
    says(&ask(&json!({"columns": {"y": 5}})), 422, "column `y` is the number 5");
    says(&ask(&json!({"columns": {"y": [1]}, "future": {"columns": {}}})), 422, "`future` is given");
    says(&ask(&json!({"colums": {}})), 400, "unknown field `colums`");
    let two = json!({"histories": [{"columns": {"y": [1, 2]}}, {"columns": {"z": [1, 2]}}]});
    let named = of_json(&server, "?horizon=3&series=a", &two);
    says(&named, 422, "?series= names one series, and the request has 2 histories");
    says(&ask(&two), 422, "history 2 has the columns z to forecast, and history 1 has y");
    says(&ask(&json!({"histories": [{}, {}, {}, {}]})), 413, "4 histories, and at most 3");
    let wide = json!({"columns": {"a": [1, 2], "b": [1, 2], "c": [2, 1], "d": [1, 3]}});
    says(&ask(&wide), 413, "4 (each column to forecast is one of its own) histories, and at most 3");
    let many: serde_json::Map<String, Value> = (0..5000).map(|i| (format!("c{i}"), json!([1]))).collect();
    says(&ask(&json!({"columns": many})), 413, "more than 4096 columns");
    let levels: Vec<String> = (1..=600).map(|i| format!("{:?}", f64::from(i) / 1000.0)).collect();
    let levels = levels.join(",");
    says(
        &of_json(&server, &format!("?horizon=512&quantiles={levels}"), &y),
        413,
        "the answer would have 308736 numbers",
    );
    says(&of_csv(&server, "?horizon=3", "date,y\n"), 422, "no rows");
    says(&of_csv(&server, "?horizon=3", "date,y\n2024-01-01,\n2024-01-02,\n"), 422, "no numeric column");
    says(&of_csv(&server, "?horizon=3", &"1".repeat(2 << 20)), 413, "2097152 bytes, and at most 1048576");
    let parts = server.parts("", &[("data", "y\n1\n2\n"), ("future", "x\n1\n")]);
    says(&parts, 400, "the request says no horizon");
    // It is as well as before.
    assert_eq!(ask(&y).code, 200);
}

#[test]
fn own_weights_are_served_and_flags_of_runs_are_refused() {
    let f = Folder::new();
    f.write("d.csv", csv(60));
    for (words, said) in [
        ("serve --pretrained d.csv --port 0 --device cpu", "not a whole safetensors file"),
        ("serve --pretrained none --port 0 --device cpu", "none: "),
        ("serve --interval 80 --port 0", "--interval and no run directory: only a run has a use for it"),
        ("serve --no-interval --port 0", "--no-interval and no run directory"),
        ("serve --weights last --port 0", "--weights and no run directory"),
        (
            "serve run --pretrained w.safetensors --port 0",
            "--pretrained and a run directory: a run has its own",
        ),
        ("serve --host 0.0.0.0 --port 0", "there is no token"),
    ] {
        let error = f.refused(words);
        assert!(error.contains(said), "{words}: {error}");
    }
    f.write("r.toml", RECIPE);
    f.runs("pretrain r.toml --out p --device cpu --threads 2");
    let server = Server::start(&f, "--pretrained p/weights.safetensors");
    let model = server.get("/model").json();
    assert_eq!((&model["weights"], &model["context"]), (&json!("p/weights.safetensors"), &json!(64)));
    let answer = of_csv(&server, "?horizon=3", &f.read("d.csv")).body;
    let forecast = "forecast --data d.csv --horizon 3 --device cpu --threads 2";
    assert_eq!(answer, f.runs(&format!("{forecast} --pretrained p/weights.safetensors")).out);
    assert_ne!(answer, f.runs(forecast).out);
}

#[test]
fn names_do_not_come_back_many_times_over() {
    let f = Folder::new();
    let server = Server::start(&f, "");
    let name = "n".repeat(300_000);
    let levels: Vec<String> = (1..100).map(|i| format!("{:?}", f64::from(i) / 100.0)).collect();
    let (levels, column) = (levels.join(","), format!("{name}\n1\n2\n3\n"));
    let series =
        ["a", &name].map(|id| (1..4).map(|day| format!("{id},2024-01-0{day},{day}\n")).collect::<String>());
    let series = format!("id,date,y\n{}{}", series[0], series[1]);
    for (query, body) in
        [(format!("?horizon=1&quantiles={levels}"), &column), ("?horizon=512".to_owned(), &series)]
    {
        let answer = of_csv(&server, &query, body);
        assert_eq!(answer.code, 413, "{query}: {}", answer.error());
        assert!(answer.error().contains("the names of columns and series would be"), "{}", answer.error());
    }
    // As JSON a name is there once.
    let answer = server.post(&format!("/forecast?horizon=1&quantiles={levels}"), JSON_OF_CSV, &column);
    assert_eq!((answer.code, answer.body.len() < 400_000), (200, true));
    // Nor do two columns of a table have one name.
    for (query, body, told) in [
        ("?horizon=1&quantiles=0.5,0.5", "y\n1\n2\n", "a level is given twice"),
        ("?horizon=1", "y,y-lo-80\n1,2\n2,3\n", "two columns of the table would be called `y-lo-80`"),
        ("?horizon=1&interval=99.99999999999999", "y\n1\n2\n", "above 0 and below 100"),
    ] {
        let answer = of_csv(&server, query, body);
        assert_eq!(answer.code, 422, "{query}");
        assert!(answer.error().contains(told), "{query}: {}", answer.error());
    }
    let constant = of_json(&server, "?horizon=2", &json!({"columns": {"load": [0.7, 0.7, 0.7]}})).json();
    assert_eq!(numbers(&constant["forecasts"][0]), [0.7; 6]);
}
