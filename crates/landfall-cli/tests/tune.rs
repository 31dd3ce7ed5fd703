//! `landfall tune`, and runs that keep what it found.

mod program;

use program::{Folder, Ran, csv, steps};
use serde_json::Value;

/// Flags of a model with products that can be cut in several ways.
const SMALL: &str =
    "--preset patchtst-42 --data d.csv --context 64 --horizon 8 --batch 64 --threads 1 --device cpu";

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(400));
    f
}

/// Runs with the cache in the folder, and expects success.
fn runs(f: &Folder, words: &str) -> Ran {
    let ran = f.command(words).env("LANDFALL_CACHE", f.path().join("cache")).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let ran = Ran { code: ran.status.code(), out: text(ran.stdout), err: text(ran.stderr) };
    assert_eq!(ran.code, Some(0), "{words}\n{}\n{}", ran.out, ran.err);
    ran
}

fn kept(f: &Folder) -> Vec<String> {
    Folder::names_in(&f.path().join("cache/tuned"))
}

/// What was tried is printed and kept; what is kept is taken; what is damaged is tried again, and said.
#[test]
fn choices_are_found_kept_and_mended() {
    let f = folder();
    let object = runs(&f, &format!("tune {SMALL} --json")).json();
    let rows = object["instructions"].as_array().expect("rows");
    assert!(!rows.is_empty() && rows.iter().all(|r| r["cached"] == false), "{object}");
    for row in rows {
        let all = row["candidates"].as_array().expect("candidates");
        assert!(all.len() > 1 && all[0]["kernel"] == "product", "{row}");
        assert!(all.iter().all(|c| c["verdict"]["microseconds"].is_f64()), "every one is right: {row}");
    }
    let files = kept(&f);
    assert!(!files.is_empty() && files.len() <= rows.len(), "{files:?}");

    let again = runs(&f, &format!("tune {SMALL}"));
    assert!(again.out.contains("kept") && again.err.is_empty(), "{}\n{}", again.out, again.err);

    f.write(&format!("cache/tuned/{}", files[0]), "{\"entry\": {");
    let mended = runs(&f, &format!("tune {SMALL}"));
    let [note] = mended.err.lines().collect::<Vec<_>>()[..] else { panic!("one note: {}", mended.err) };
    assert!(note.starts_with("note: the tuned choice for ") && note.contains("is damaged"), "{note}");
    assert_eq!(runs(&f, &format!("tune {SMALL}")).err, "");
}

#[test]
fn the_null_device_has_nothing_to_tune() {
    let f = folder();
    let ran = runs(&f, "tune --device null");
    assert!(ran.err.contains("note: the device null computes nothing"), "{}", ran.err);
    assert!(ran.out.contains("no instruction has several kernels"), "{}", ran.out);
}

fn tensors(f: &Folder, name: &str) -> Vec<u8> {
    let all = std::fs::read(f.path().join(name)).expect(name);
    let length = u64::from_le_bytes(all[..8].try_into().expect("eight bytes")) as usize;
    all[8 + length..].to_vec()
}

fn copy(f: &Folder, from: &str, to: &str) {
    std::fs::create_dir(f.path().join(to)).expect("a new folder");
    for name in Folder::names_in(&f.path().join(from)) {
        std::fs::copy(f.path().join(from).join(&name), f.path().join(to).join(&name)).expect("copied");
    }
}

/// The instructions of a run's programs that take another kernel than their op's own.
fn pinned(f: &Folder, run: &str) -> Vec<String> {
    let plans: Value = serde_json::from_str(&f.read(&format!("{run}/plan.json"))).expect("JSON");
    let of = |plan: &Value| plan["plan"]["pinned"].as_array().expect("a list").clone();
    let all = plans.as_array().expect("programs").iter().flat_map(of);
    all.map(|p| p[2].as_str().expect("a kernel").to_owned()).collect()
}

/// A run keeps the kernels that it began with, also where it is resumed, and gives the same bytes with them.
#[test]
fn a_resumed_run_keeps_its_kernels() {
    let f = folder();
    runs(&f, &format!("train {SMALL} --epochs 1 --log-every 1 --tuned --out a"));
    let config = f.read("a/config.toml");
    assert!(config.contains("[kernels]") && config.contains("[kernels.kernels]"), "{config}");

    // Whatever was the fastest here: from now on the run has variants, wherever there is one.
    let rows = runs(&f, &format!("tune {SMALL} --json")).json();
    let mut changed = config.parse::<toml::Table>().expect("TOML");
    for row in rows["instructions"].as_array().expect("rows") {
        let variant =
            row["candidates"].as_array().expect("candidates").last().expect("some")["kernel"].clone();
        let name = row["instruction"].as_str().expect("a name");
        changed["kernels"]["kernels"][name] = variant.as_str().expect("a kernel").into();
    }
    f.write("a/config.toml", toml::to_string(&changed).expect("writable"));
    copy(&f, "a", "b");
    copy(&f, "a", "c");

    runs(&f, "train --resume a --epochs 3");
    runs(&f, "train --resume b --epochs 2");
    runs(&f, "train --resume b --epochs 3");
    assert!(!pinned(&f, "a").is_empty() && !pinned(&f, "a").contains(&"product".to_owned()));
    assert_eq!(pinned(&f, "a"), pinned(&f, "b"));
    let plan = runs(&f, "plan --config a/config.toml --device cpu --channels 2").out;
    assert!(plan.contains("tuned kernels: ") && plan.contains("matmul/product_"), "{plan}");
    assert_eq!(tensors(&f, "a/checkpoint.safetensors"), tensors(&f, "b/checkpoint.safetensors"));
    assert_eq!(steps(&f.read("a/metrics.jsonl")), steps(&f.read("b/metrics.jsonl")));

    // Of another build they do not hold: that is said, and the ops' own are taken.
    changed["kernels"]["sources"] = "another".into();
    f.write("c/config.toml", toml::to_string(&changed).expect("writable"));
    let ran = runs(&f, "train --resume c --epochs 2");
    assert!(ran.err.contains("the run's tuned kernels do not hold here (its build was"), "{}", ran.err);
    assert!(pinned(&f, "c").is_empty());
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let f = folder();
    let why = f.refused("train --resume a --tuned");
    assert!(why.contains("--tuned") && why.contains("--resume"), "{why}");
}
