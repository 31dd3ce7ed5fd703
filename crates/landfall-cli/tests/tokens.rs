//! Samples of tokens through the program: training, evaluation and prediction of classes, accumulation, and files that
//! are wrong.

mod program;

use program::{Folder, steps};

/// A network small enough for tests.
const NETWORK: &str = "[network]\nd-model = 16\nheads = 2\nlayers = 1\nd-ff = 16\n";
const TRAIN: &str =
    "train --model cross-asset --config c.toml --batch 16 --threads 2 --device cpu --log-every 1";

/// The features of one token of one sample, and its class: the larger of the first two features of the other token.
fn token(sample: usize, token: usize) -> ([f64; 3], &'static str) {
    let noise = |s: usize, t: usize, f: usize| {
        let mut x = (s * 6 + t * 3 + f) as u64 + 1;
        for _ in 0..3 {
            x = (x ^ (x >> 15)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        (x >> 44) as f64 / (1u64 << 20) as f64
    };
    let features = [0, 1, 2].map(|f| noise(sample, token, f));
    let other = 1 - token;
    (features, if noise(sample, other, 0) > noise(sample, other, 1) { "up" } else { "down" })
}

fn long(samples: usize) -> String {
    let mut text = "sample,token,a,b,c,label\n".to_owned();
    for s in 0..samples {
        for (t, name) in ["btc", "eth"].iter().enumerate() {
            let ([a, b, c], class) = token(s, t);
            text += &format!("s{s},{name},{a:.4},{b:.4},{c:.4},{class}\n");
        }
    }
    text
}

fn wide(samples: usize, labels: bool) -> String {
    let names = ["a", "b", "c"].iter().chain(labels.then_some(&"label"));
    let header: Vec<String> =
        ["btc", "eth"].iter().flat_map(|t| names.clone().map(move |f| format!("{t}.{f}"))).collect();
    let mut text = format!("sample,{}\n", header.join(","));
    for s in 0..samples {
        text += &format!("s{s}");
        for t in 0..2 {
            let ([a, b, c], class) = token(s, t);
            text += &format!(",{a:.4},{b:.4},{c:.4}");
            text += &if labels { format!(",{class}") } else { String::new() };
        }
        text.push('\n');
    }
    text
}

fn folder() -> Folder {
    let f = Folder::new();
    f.write("c.toml", NETWORK);
    f.write("long.csv", long(400));
    f
}

#[test]
fn a_table_trains_evaluates_predicts_and_resumes() {
    let f = folder();
    let ran = f.runs(&format!("{TRAIN} --data long.csv --epochs 4 --lr 0.01 --json --out run"));
    assert!(
        ran.out.contains("data long.csv: 400 samples of 2 tokens with 3 features, classes down, up"),
        "{}",
        ran.out
    );
    let object = ran.json();
    let accuracy = object["accuracy"].as_f64().expect("a number");
    assert!(accuracy > 0.7 && accuracy <= 1.0, "{object}");
    assert!(object["most_frequent_class"]["accuracy"].as_f64().is_some_and(|a| (0.5..0.65).contains(&a)));
    assert!(object.get("Bayes_classifier").is_none(), "a file has no known best: {object}");
    assert_eq!(object["windows"], 80);
    assert!(f.read("run/metrics.jsonl").contains("\"cross_entropy\":"));

    let scored = f.runs("evaluate run --device cpu --json").json();
    assert_eq!(scored["accuracy"].as_f64(), Some(accuracy));
    assert_eq!(scored["samples"], 80);

    // A wide table without classes gives the classes of the same samples as the long one.
    f.write("wide.csv", wide(400, false));
    let from_wide = f.runs("predict run --data wide.csv --device cpu").out;
    assert_eq!(from_wide.lines().next(), Some("sample,token,class,p_down,p_up"));
    assert_eq!(f.runs("predict run --data long.csv --device cpu").out, from_wide);
    let rows: Vec<Vec<&str>> = from_wide.lines().skip(1).map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 800);
    let mut right = 0;
    for (i, row) in rows.iter().enumerate() {
        let p: Vec<f64> = row[3..].iter().map(|p| p.parse().expect("a number")).collect();
        assert!((p[0] + p[1] - 1.0).abs() < 1e-6, "{row:?}");
        assert_eq!(row[2], if p[1] > p[0] { "up" } else { "down" });
        assert_eq!(row[..2], [format!("s{}", i / 2).as_str(), ["btc", "eth"][i % 2]]);
        right += usize::from(i >= 640 && row[2] == token(i / 2, i % 2).1);
    }
    // The last fifth is the test segment.
    assert!((right as f64 / 160.0 - accuracy).abs() < 1e-12, "{right} of 160");
    f.runs("predict run --data wide.csv --device cpu --out p.csv");
    assert_eq!(f.read("p.csv"), from_wide);
    let object = f.runs("predict run --data wide.csv --device cpu --json").json();
    assert_eq!(object["probabilities"].as_array().map(Vec::len), Some(400));

    f.runs("train --resume run --epochs 6 --device cpu");
    assert_eq!(steps(&f.read("run/metrics.jsonl")).len(), 6 * 17);
    f.write("long.csv", long(400).replace("s3,btc,0.", "s3,btc,7."));
    let ran = f.run("train --resume run --epochs 7 --device cpu");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("column `btc.a` has another mean or standard deviation"), "{}", ran.err);
}

#[test]
fn accumulated_steps_are_steps_of_the_batch() {
    let f = folder();
    let losses = |name: &str, more: &str| -> Vec<f64> {
        f.runs(&format!("{TRAIN} --data long.csv --max-steps 3 --out {name} {more}"));
        let of = |l: &str| serde_json::from_str::<serde_json::Value>(l).expect("JSON")["loss"].as_f64();
        steps(&f.read(&format!("{name}/metrics.jsonl"))).iter().filter_map(|l| of(l)).collect()
    };
    let whole = losses("whole", "");
    let cut = losses("cut", "--accumulate 16");
    assert_eq!((whole.len(), cut.len()), (3, 3));
    assert!((whole[0] - cut[0]).abs() < 1e-6 && (whole[2] - cut[2]).abs() < 1e-3, "{whole:?} {cut:?}");
    assert!(f.read("cut/config.toml").contains("accumulate = 16"));
    assert!(!f.read("whole/config.toml").contains("accumulate"));
    // Fewer samples than micro-batches can be predicted all the same.
    f.write("one.csv", wide(1, false));
    assert_eq!(f.runs("predict cut --data one.csv --device cpu").out.lines().count(), 3);
    assert_eq!(
        f.refused(&format!("{TRAIN} --data long.csv --accumulate 3")),
        "--accumulate 3 and --batch 16: a batch is cut into micro-batches of one size; give a divisor of it"
    );
    assert_eq!(f.refused(&format!("{TRAIN} --accumulate 0")), "--accumulate 0: it must be at least 1");
}

#[test]
fn generated_samples_have_a_known_best() {
    let f = Folder::new();
    f.write("c.toml", format!("{NETWORK}tokens = 3\nfeatures = 6\n"));
    let ran = f.runs(&format!("{TRAIN} --synthetic assets --samples 300 --max-steps 20 --json --out run"));
    let best = ran.json()["Bayes_classifier"]["accuracy"].as_f64().expect("a number");
    assert!((best - 0.8847).abs() < 1e-3, "{best}");
    assert!(ran.out.contains("Bayes classifier"), "{}", ran.out);
    let plan = f.runs("plan --model cross-asset --accumulate 256 --json").json();
    let whole = f.runs("plan --model cross-asset --json").json();
    let peak = |p: &serde_json::Value| p["plan"]["arena_bytes"].as_u64().expect("bytes");
    assert!(peak(&plan) * 4 < peak(&whole), "{} {}", peak(&plan), peak(&whole));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let f = folder();
    f.write("d.csv", program::csv(300));
    for (words, says) in [
        ("--context 32", "--context and --preset cross-asset: that model has no such option; leave it out"),
        (
            "--loss mse",
            "--loss mse and --model cross-asset: it predicts classes, by the cross-entropy; leave it out",
        ),
        (
            "--quantiles 0.1,0.5",
            "--quantiles and --model cross-asset: it predicts classes, by the cross-entropy; leave it out",
        ),
        (
            "--channels 3",
            "--channels and --model cross-asset: it belongs to series, and this model reads samples of tokens; leave it out",
        ),
        (
            "--synthetic walk",
            "--model cross-asset and --synthetic walk: walks have one label each and no future rows; use --model window-regressor",
        ),
        (
            "--synthetic demo",
            "--model cross-asset and --synthetic demo: the series has no classes; use --synthetic assets",
        ),
        ("--data long.csv --data d.csv", "2 files of samples where one is needed; put all samples into one"),
    ] {
        assert_eq!(f.refused(&format!("{TRAIN} {words}")), says);
    }
    assert_eq!(
        f.refused("train --synthetic assets --model dlinear"),
        "--model dlinear and --synthetic assets: the samples have classes and no rows in time; use --model cross-asset"
    );
    assert_eq!(
        f.refused("train --loss cross-entropy --model dlinear"),
        "--loss cross-entropy and --model dlinear: it is of classes; use --model cross-asset"
    );
    f.write("n.toml", format!("{NETWORK}tokens = 5\n"));
    assert_eq!(
        f.refused("train --model cross-asset --config n.toml --data long.csv"),
        "[network] tokens = 5 and long.csv: it has 2; correct the number, or leave it out"
    );
    f.runs(&format!("{TRAIN} --data long.csv --max-steps 1 --out run"));
    let told = f.refused("forecast run");
    assert_eq!(
        told,
        "run holds a cross-asset, which predicts classes of samples and no future rows; use landfall predict"
    );
    f.runs(
        "train --data d.csv --preset dlinear --context 32 --horizon 8 --batch 16 --max-steps 1 --out series",
    );
    let told = f.refused("predict series --data long.csv");
    assert_eq!(
        told,
        "series holds no cross-asset, and only that predicts classes; use landfall forecast for future rows"
    );
}

#[test]
fn tables_that_are_wrong_are_named_by_their_place() {
    let f = folder();
    let told = |text: &str| {
        f.write("x.csv", text);
        f.refused(&format!("{TRAIN} --data x.csv"))
    };
    let head = "sample,token,a,label\n";
    for (text, says) in [
        ("", "x.csv: the file is empty; it needs a header line and rows of numbers"),
        (head, "x.csv: a header line and no rows; add rows of numbers below it"),
        (
            "1,2,3\n4,5,6.5\n",
            "x.csv: column `1` names no token; a table with a row for each sample has columns `token.feature`, and one with a row for each sample and token has columns `sample` and `token`",
        ),
        (
            "token,a,label\nx,1,up\n",
            "x.csv: no column `sample` among token, a, label; add it or correct its name",
        ),
        ("sample,token,label\n1,x,up\n", "x.csv: no column of a feature; give each token at least one"),
        ("sample,token,a\n1,x,1\n", "x.csv: no column `label`; training needs the class of every token"),
        ("x.a,x.label,y.a\n1,up,2\n", "x.csv: no column `y.label`; training needs the class of every token"),
        (
            "x.a,x.label,y.b,y.label\n1,up,2,up\n",
            "x.csv: no column `x.b`, which token `y` has; every token has the same features",
        ),
        ("a,a\n1,2\n", "x.csv: column `a` is there twice; give each column its own name"),
    ] {
        assert_eq!(told(text), says, "{text:?}");
    }
    for (rows, says) in [
        ("1,x,1,up\n1,x,2,up\n", "x.csv:3: token `x` of sample `1` is there twice; keep one row of each"),
        ("1,x,1,up\n,y,2,up\n", "x.csv:3: column `sample` is empty; name what the row belongs to"),
        ("1,x,,up\n", "x.csv:2: column `a`: the value is missing; fill it in, or leave the sample out"),
        ("1,x,high,up\n", "x.csv:2: column `a`: `high` is no number that f32 holds; correct it"),
        ("1,x,1e39,up\n", "x.csv:2: column `a`: `1e39` is no number that f32 holds; correct it"),
        ("1,x,1,\n", "x.csv:2: column `label`: the class is missing; give every token of every sample one"),
        (
            "1,x,1,up\n1,y,1,up\n2,x,1,down\n",
            "x.csv: sample `2` has no token `y`; every sample has all tokens",
        ),
        ("1,x,1,up\n2,x,1,up\n", "x.csv: every token is of class `up`; there must be at least 2 classes"),
        ("1,x,1,up\n2,x,1,down\n", "x.csv: 2 samples leave none for test with split 0.7,0.1,0.2; give more"),
        ("1,x,1\n", "x.csv:2: 3 fields where the header has 4; correct the row"),
    ] {
        assert_eq!(told(&format!("{head}{rows}")), says, "{rows:?}");
    }
    f.runs(&format!("{TRAIN} --data long.csv --max-steps 1 --out run"));
    let predicted = |text: &str| {
        f.write("x.csv", text);
        f.refused("predict run --data x.csv --device cpu --out p.csv")
    };
    for (text, says) in [
        (
            "sample,token,a,b\n1,btc,1,2\n",
            "x.csv: no feature `c`; give the features that the run was trained on",
        ),
        (
            "sample,token,a,b,c,d\n1,btc,1,2,3,4\n",
            "x.csv: 4 features where the run has 3; give those that it was trained on",
        ),
        (
            "sample,token,a,b,c\n1,ada,1,2,3\n",
            "x.csv:2: token `ada` is none of the run's (btc, eth); leave its rows out",
        ),
        (
            "sample,token,a,b,c\n1,btc,1,2,3\n",
            "x.csv: sample `1` has no token `eth`; every sample has all tokens",
        ),
    ] {
        assert_eq!(predicted(text), says, "{text:?}");
    }
    // Classes that the run does not know are an error where classes count, and nothing where they do not.
    f.write("new.csv", long(400).replacen(",up\n", ",sideways\n", 1));
    let ran = f.run("evaluate run --data new.csv --device cpu");
    assert!(
        ran.code == Some(2) && ran.err.contains("class `sideways` is none of the run's (down, up)"),
        "{}",
        ran.err
    );
    f.runs("predict run --data new.csv --device cpu");
}
