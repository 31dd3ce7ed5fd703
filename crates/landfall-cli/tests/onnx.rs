//! `landfall export --onnx`: every forecaster that a run can have, run by onnxruntime where Python has it, and the file as
//! others read it.

mod program;

use landfall::Engine;
use landfall_forecast::run::{Data, Run, Weights};
use landfall_train::train::Dataset;
use program::onnx::{MOST, compare, levels, rows};
use program::{Folder, csv};
use prost::Message;
use serde_json::{Value, json};

/// Rows of the CSV, and of the shorter one that the second context of a batch ends with.
const ROWS: [usize; 2] = [600, 595];

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(ROWS[0]));
    f.write("e.csv", csv(ROWS[1]));
    f
}

/// The last rows of a CSV, without its first column.
fn last_rows(text: &str, rows: usize) -> Vec<Vec<f64>> {
    let all: Vec<&str> = text.lines().skip(1).collect();
    let cells = |line: &&str| line.split(',').skip(1).map(|c| c.parse().expect("a number")).collect();
    all[all.len() - rows..].iter().map(cells).collect()
}

/// What the program says that it wrote.
fn export(f: &Folder, run: &str) -> Value {
    f.runs(&format!("export {run} --onnx {run}.onnx --json")).json()
}

/// A run of one series with the forecasts of both files.
fn case(f: &Folder, run: &str) -> Value {
    let written = export(f, run);
    let context: usize = written["properties"]["context"].as_str().expect("text").parse().expect("a number");
    let opened = Run::open(&f.path().join(run)).expect("a run");
    let columns = opened.columns().to_vec();
    let (mut contexts, mut forecasts, mut quantiles) = (Vec::new(), Vec::new(), Vec::new());
    for file in ["d.csv", "e.csv"] {
        let text = f.read(file);
        let header: Vec<&str> = text.lines().next().expect("a header").split(',').skip(1).collect();
        let place = |name: &String| header.iter().position(|h| h == name).expect("a column");
        let places: Vec<usize> = columns.iter().map(place).collect();
        let row = |cells: Vec<f64>| places.iter().map(|&p| cells[p]).collect::<Vec<_>>();
        contexts.push(last_rows(&text, context).into_iter().map(row).collect::<Vec<_>>());
        let forecast = f.runs(&format!("forecast {run} --data {file} --device cpu --json")).json();
        forecasts.push(rows(&forecast["values"]));
        if forecast.get("quantiles").is_some() {
            quantiles.push(levels(&forecast["quantiles"]));
        }
    }
    let mut outputs = json!({"forecast": forecasts});
    if !quantiles.is_empty() {
        outputs["quantiles"] = json!(quantiles);
    }
    let scale = &opened.scalers()[0].1.std()[..opened.targets()];
    let model = f.path().join(format!("{run}.onnx"));
    json!({"name": run, "model": model, "inputs": {"context": contexts}, "outputs": outputs, "scale": scale})
}

const TRAIN: &str =
    "train --data d.csv --context 48 --horizon 12 --batch 16 --threads 2 --device cpu --max-steps 4";

#[test]
fn networks_are_reproduced_by_onnxruntime() {
    let f = folder();
    let network = |text: &str| {
        format!("[network]\nd-model = 8\nheads = 2\nlayers = 2\nd-ff = 12\npatch = 8\nstride = 4\n{text}")
    };
    let forms = [
        (
            "batch-post",
            "norm = \"batch\"\norder = \"post\"\nresidual-attention = true\ngelu = \"erf\"\npadding = true\nrevin = true\n",
        ),
        (
            "layer-pre",
            "norm = \"layer\"\norder = \"pre\"\nresidual-attention = false\ngelu = \"tanh\"\npadding = false\nrevin = false\n",
        ),
        (
            "batch-pre",
            "norm = \"batch\"\norder = \"pre\"\nresidual-attention = true\ngelu = \"tanh\"\npadding = true\nrevin = false\n",
        ),
        (
            "layer-post",
            "norm = \"layer\"\norder = \"post\"\nresidual-attention = true\ngelu = \"erf\"\npadding = false\nrevin = true\n",
        ),
    ];
    let mut cases = Vec::new();
    for (name, text) in forms {
        f.write(&format!("{name}.toml"), network(text));
        f.runs(&format!("{TRAIN} --preset patchtst-42 --config {name}.toml --lr 0.01 --out {name}"));
        cases.push(case(&f, name));
    }
    let more = [
        ("quantiles", "--preset patchtst-42 --config batch-post.toml --quantiles 0.1,0.5,0.9 --lr 0.01"),
        ("target", "--preset patchtst-42 --config batch-post.toml --target wind"),
        ("dlinear", "--preset dlinear"),
        ("f64", "--preset patchtst-42 --config batch-post.toml --dtype f64"),
    ];
    for (name, flags) in more {
        f.runs(&format!("{TRAIN} {flags} --out {name}"));
        cases.push(case(&f, name));
    }
    compare(&f, &cases, MOST);
}

/// A run's configuration before and after its chosen forecaster.
fn config_of(f: &Folder, run: &str) -> (String, String) {
    let config = f.read(&format!("{run}/config.toml"));
    let (before, chosen) = config.split_once("[forecaster]").expect("a chosen forecaster");
    (before.to_owned(), chosen.split_once("\n[").map(|(_, rest)| format!("[{rest}")).unwrap_or_default())
}

/// Every form that the default recipe's choice can have: a real run, whose choice is then written anew.
#[test]
fn chosen_forecasters_are_reproduced_by_onnxruntime() {
    let f = folder();
    f.runs("train --data d.csv --horizon 12 --max-steps 4 --threads 2 --device cpu --out auto");
    let (before, after) = config_of(&f, "auto");
    let mut cases = vec![case(&f, "auto")];
    let forms = [
        ("network", "network = \"patchtst\"\nshare = 1.0\nnon-negative = []\n"),
        ("floor", "network = \"patchtst\"\nshare = 1.0\nnon-negative = [\"wind\"]\n"),
        ("mean", "network = \"patchtst\"\nshare = 0.5\nrepeats = 24\nnon-negative = [\"wind\", \"load\"]\n"),
        ("last-value", "network = \"patchtst\"\nshare = 0.0\nrepeats = 1\nnon-negative = []\n"),
        ("seasonal", "network = \"patchtst\"\nshare = 0.0\nrepeats = 7\nnon-negative = [\"load\"]\n"),
        ("long-season", "network = \"patchtst\"\nshare = 0.5\nrepeats = 168\nnon-negative = []\n"),
    ];
    for (name, text) in forms {
        std::fs::create_dir(f.path().join(name)).expect("a folder");
        for file in ["best.safetensors", "nlinear.safetensors", "dlinear.safetensors"] {
            let _ = std::fs::copy(f.path().join("auto").join(file), f.path().join(name).join(file));
        }
        let file = f.path().join("d.csv");
        let text = format!("{before}[forecaster]\n{text}\n{after}")
            .replace("data = \"../d.csv\"", &format!("data = {file:?}"));
        f.write(&format!("{name}/config.toml"), text);
        cases.push(case(&f, name));
    }
    // Each level is averaged with the baseline.
    f.runs("train --data d.csv --horizon 12 --quantiles 0.1,0.5,0.9 --max-steps 4 --threads 2 --device cpu --out levels");
    let (before, _) = config_of(&f, "levels");
    f.write("levels/config.toml", format!("{before}[forecaster]\nnetwork = \"patchtst\"\nshare = 0.5\nrepeats = 24\nnon-negative = [\"wind\"]\n{after}"));
    cases.push(case(&f, "levels"));
    // A ridge regression is what a linear network's weights come from.
    for model in ["nlinear", "dlinear"] {
        f.runs(&format!(
            "train --data d.csv --model {model} --horizon 12 --threads 2 --device cpu --out {model}"
        ));
        cases.push(case(&f, model));
    }
    compare(&f, &cases, MOST);
}

#[test]
fn several_series_have_their_own_scalers() {
    let f = Folder::new();
    let mut text = "site,date,load,wind\n".to_owned();
    for (site, factor) in [("north", 1.0), ("south", 40.0)] {
        for line in csv(600).lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let [load, wind] = [1, 2].map(|i| cells[i].parse::<f64>().expect("a number") * factor);
            text += &format!("{site},{},{load:.4},{wind:.4}\n", cells[0]);
        }
    }
    f.write("d.csv", &text);
    f.runs(&format!("{TRAIN} --series-id site --preset dlinear --lr 0.01 --out run"));
    let written = export(&f, "run");
    assert_eq!(written["properties"]["series"], "[\"north\",\"south\"]");
    let forecast = f.runs("forecast run --device cpu --json").json();
    let of = |name: &str| {
        let lines: Vec<&str> = text.lines().filter(|l| l.starts_with(name)).collect();
        let cells =
            |l: &&str| l.split(',').skip(2).map(|c| c.parse::<f64>().expect("a number")).collect::<Vec<_>>();
        lines[lines.len() - 48..].iter().map(cells).collect::<Vec<_>>()
    };
    let expected: Vec<_> =
        forecast["series"].as_array().expect("series").iter().map(|s| rows(&s["values"])).collect();
    let scale = Run::open(&f.path().join("run")).expect("a run").scalers()[1].1.std().to_vec();
    let model = f.path().join("run.onnx");
    let inputs = json!({"context": [of("north"), of("south")], "series": [0, 1]});
    let one = json!({"name": "run", "model": model, "inputs": inputs, "outputs": {"forecast": expected}, "scale": scale});
    compare(&f, &[one], MOST);
}

#[test]
fn labels_of_windows_are_reproduced_by_onnxruntime() {
    let f = Folder::new();
    f.runs("train --preset window-regressor --samples 200 --max-steps 4 --threads 2 --device cpu --out walk");
    export(&f, "walk");
    let run = Run::open(&f.path().join("walk")).expect("a run");
    let Data::Walk(walk) = run.load(&[], None).expect("data") else { panic!("a walk") };
    let engine = Engine::cpu().expect("an engine");
    let mut session = run.session(&engine, &Dataset::regression(&walk), Weights::Best).expect("a session");
    let (c, l) = (walk.channels, walk.length);
    let (mut contexts, mut expected) = (Vec::new(), Vec::new());
    for window in walk.inputs.chunks_exact(c * l).take(5) {
        let scaled: Vec<f64> = window.iter().map(|&x| f64::from(x)).collect();
        expected.push(session.predict(&scaled).expect("a prediction"));
        let value = |row: usize, column: usize| {
            let at = column * l + row;
            scaled[at] * walk.std[at] + walk.mean[at]
        };
        contexts.push(
            (0..l).map(|row| (0..c).map(|column| value(row, column)).collect()).collect::<Vec<Vec<f64>>>(),
        );
    }
    let model = f.path().join("walk.onnx");
    let one = json!({"name": "walk", "model": model, "inputs": {"context": contexts}, "outputs": {"prediction": expected}, "scale": [1.0]});
    compare(&f, &[one], MOST);
}

#[test]
fn probabilities_of_classes_are_reproduced_by_onnxruntime() {
    let f = Folder::new();
    // 12 tokens take the fused attention of cosines, 80 do not.
    let mut cases = Vec::new();
    for (name, tokens) in [("few", 3usize), ("many", 80)] {
        let mut text = "sample,token,a,b,c,label\n".to_owned();
        let noise = |i: usize| ((i * 7919 + 13) % 1009) as f64 / 100.9 - 5.0;
        for sample in 0..60 {
            for token in 0..tokens {
                let at = 3 * (sample * tokens + token);
                let class = if noise(at) > 0.0 { "up" } else { "down" };
                text += &format!(
                    "s{sample},t{token},{:.3},{:.3},{:.3},{class}\n",
                    noise(at),
                    100.0 + noise(at + 1),
                    noise(at + 2)
                );
            }
        }
        f.write(&format!("{name}.csv"), &text);
        f.write("c.toml", "[network]\nd-model = 16\nheads = 2\nlayers = 2\nd-ff = 16\n");
        f.runs(&format!("train --model cross-asset --config c.toml --data {name}.csv --batch 16 --threads 2 --device cpu --max-steps 4 --out {name}"));
        export(&f, name);
        let predicted = f.runs(&format!("predict {name} --data {name}.csv --device cpu --json")).json();
        let lines: Vec<Vec<f64>> = text
            .lines()
            .skip(1)
            .map(|l| l.split(',').skip(2).take(3).map(|c| c.parse().expect("a number")).collect())
            .collect();
        let features: Vec<_> = lines.chunks_exact(tokens).collect();
        let probabilities: Vec<_> = predicted["probabilities"].as_array().expect("samples").iter().collect();
        cases.push(json!({
            "name": name,
            "model": f.path().join(format!("{name}.onnx")),
            "inputs": {"features": features},
            "outputs": {"probabilities": probabilities},
            "scale": [1.0],
        }));
    }
    compare(&f, &cases, MOST);
}

/// The messages that the next test reads, written down apart from those that the program writes: fields by their numbers in
/// `onnx.proto`.
mod file {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Model {
        #[prost(int64, tag = "1")]
        pub(crate) ir_version: i64,
        #[prost(message, optional, tag = "7")]
        pub(crate) graph: Option<Graph>,
        #[prost(message, repeated, tag = "8")]
        pub(crate) opset_import: Vec<Opset>,
        #[prost(message, repeated, tag = "14")]
        pub(crate) metadata_props: Vec<Property>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Opset {
        #[prost(int64, tag = "2")]
        pub(crate) version: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Property {
        #[prost(string, tag = "1")]
        pub(crate) key: String,
        #[prost(string, tag = "2")]
        pub(crate) value: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Graph {
        #[prost(message, repeated, tag = "1")]
        pub(crate) node: Vec<Node>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) initializer: Vec<Tensor>,
        #[prost(message, repeated, tag = "11")]
        pub(crate) input: Vec<Named>,
        #[prost(message, repeated, tag = "12")]
        pub(crate) output: Vec<Named>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Node {
        #[prost(string, repeated, tag = "1")]
        pub(crate) input: Vec<String>,
        #[prost(string, repeated, tag = "2")]
        pub(crate) output: Vec<String>,
        #[prost(string, tag = "4")]
        pub(crate) op_type: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Tensor {
        #[prost(int64, repeated, tag = "1")]
        pub(crate) dims: Vec<i64>,
        #[prost(int32, tag = "2")]
        pub(crate) data_type: i32,
        #[prost(string, tag = "8")]
        pub(crate) name: String,
        #[prost(bytes = "vec", tag = "9")]
        pub(crate) raw_data: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Named {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
    }
}

#[test]
fn the_file_is_an_onnx_graph() {
    let f = folder();
    f.runs(&format!("{TRAIN} --preset patchtst-42 --quantiles 0.1,0.5,0.9 --out run"));
    let written = export(&f, "run");
    assert_eq!(written["inputs"], json!(["context double[batch, 48, 2]"]));
    let outputs = json!(["forecast double[batch, 12, 2]", "quantiles double[batch, 12, 2, 3]"]);
    assert_eq!(written["outputs"], outputs);
    let bytes = std::fs::read(f.path().join("run.onnx")).expect("the file");
    assert_eq!(written["bytes"], bytes.len());
    let model = file::Model::decode(bytes.as_slice()).expect("protocol buffers");
    assert_eq!((model.ir_version, model.opset_import[0].version), (8, 18));
    let property = |key: &str| model.metadata_props.iter().find(|p| p.key == key).map(|p| p.value.as_str());
    assert_eq!(property("columns"), Some("[\"load\",\"wind\"]"));
    assert_eq!((property("context"), property("horizon")), (Some("48"), Some("12")));
    assert_eq!((property("quantiles"), property("frequency")), (Some("[0.1,0.5,0.9]"), Some("hourly")));
    assert_eq!(property("landfall"), Some(env!("CARGO_PKG_VERSION")));
    let graph = model.graph.expect("a graph");
    let names = |all: &[file::Named]| all.iter().map(|n| n.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&graph.input), names(&graph.output)),
        (vec!["context".to_owned()], vec!["forecast".to_owned(), "quantiles".to_owned()])
    );
    // Nodes stand behind what they read, and no name is given twice.
    let mut known: std::collections::HashSet<String> = names(&graph.input).into_iter().collect();
    for tensor in &graph.initializer {
        let size = match tensor.data_type {
            1 => 4,
            7 | 11 => 8,
            other => panic!("data type {other} of {}", tensor.name),
        };
        assert_eq!(
            tensor.raw_data.len() as i64,
            size * tensor.dims.iter().product::<i64>(),
            "{}",
            tensor.name
        );
        assert!(known.insert(tensor.name.clone()), "{} twice", tensor.name);
    }
    for node in &graph.node {
        assert!(node.input.iter().all(|i| known.contains(i)), "{node:?}");
        assert!(node.output.iter().all(|o| known.insert(o.clone())), "{node:?}");
    }
    assert!(graph.output.iter().all(|o| known.contains(&o.name)));
    let count = |op: &str| graph.node.iter().filter(|n| n.op_type == op).count();
    // Three layers of attention; the levels are sorted once.
    assert_eq!((count("Softmax"), count("TopK")), (3, 1));
    // A weight is in the file as it is in the run.
    let weight = graph.initializer.iter().find(|t| t.name == "model.backbone.W_pos").expect("positions");
    let kept =
        landfall_train::checkpoint::File::read(&f.path().join("run/best.safetensors")).expect("weights");
    assert_eq!(weight.raw_data, kept.tensors["model.backbone.W_pos"].host().expect("values").to_bytes());
}

#[test]
fn what_is_not_exported_is_said() {
    let f = folder();
    f.runs(&format!("{TRAIN} --preset dlinear --out run"));
    f.write("there.onnx", "mine");
    assert_eq!(f.refused("export run --onnx there.onnx"), "there.onnx exists already; choose another file");
    assert_eq!(f.read("there.onnx"), "mine");
    let refused = f.refused("export run --onnx nowhere/run.onnx");
    assert!(refused.starts_with("cannot write nowhere/run.onnx: "), "{refused}");
    assert!(f.refused("export d.csv --onnx x.onnx").starts_with("d.csv is not a run directory"));
}
