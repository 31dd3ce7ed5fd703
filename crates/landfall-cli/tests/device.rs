//! `--device`: what it takes, what it says where there is no GPU, and a run that goes on elsewhere.

mod program;

use landfall::Engine;
use program::{Folder, SMALL, csv};

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f
}

/// Why there is no GPU here; `None`, said aloud, where there is one.
fn absent() -> Option<String> {
    let why = Engine::cuda(0).err().map(|e| e.to_string());
    if why.is_none() {
        println!("skipped: there is a GPU, so there is no absence to name");
    }
    why
}

#[test]
fn names() {
    let f = folder();
    let expected = "choose auto, cpu, cuda, cuda:N or null";
    for wrong in ["gpu", "cuda:", "cuda:-1", "cuda:x"] {
        let error = f.refused(&format!("{SMALL} --out run --device {wrong}"));
        assert!(error.contains(&format!("'{wrong}'")) && error.contains(expected), "{error}");
    }
    for command in ["evaluate run", "forecast run"] {
        let error = f.refused(&format!("{command} --device null"));
        assert!(error.contains("null computes nothing; choose auto, cpu, cuda or cuda:N"), "{error}");
    }
    f.write("c.toml", "device = \"tpu\"\n");
    let error = f.refused(&format!("{SMALL} --out run --config c.toml"));
    assert!(
        error.starts_with("c.toml:1: unknown device `tpu`, expected auto, cpu, cuda, cuda:N or null"),
        "{error}"
    );
}

#[test]
fn without_a_gpu_cuda_is_refused_by_every_command() {
    let Some(why) = absent() else { return };
    let f = folder();
    f.runs(&format!("{SMALL} --max-steps 1 --out run --device cpu"));
    let seeds = format!("{SMALL} --max-steps 1 --out runs --seeds 1,2");
    let resume = "train --resume run --max-steps 2".to_owned();
    for command in [
        format!("{SMALL} --max-steps 1 --out other"),
        seeds,
        resume,
        "evaluate run".to_owned(),
        "forecast run".to_owned(),
        "plan --batch 4".to_owned(),
    ] {
        let error = f.run(&format!("{command} --device cuda"));
        assert_eq!(error.code, Some(2), "{command}: {}", error.err);
        let expected = format!("error: --device cuda:0: {why}; use --device cpu");
        assert_eq!(error.err.trim_end(), expected, "{command}");
    }
    assert_eq!(f.names(), ["d.csv", "run"]);
}

#[test]
fn without_a_gpu_auto_is_the_processor_without_a_word() {
    if absent().is_none() {
        return;
    }
    let f = folder();
    let ran = f.runs(&format!("{SMALL} --max-steps 1 --out run"));
    assert!(!ran.out.contains("device"), "{}", ran.out);
    let configuration = f.read("run/config.toml");
    for key in ["device = \"auto\"", "computed-on = \"cpu\""] {
        assert!(configuration.lines().any(|l| l == key), "{configuration}");
    }
    for command in ["evaluate run", "forecast run"] {
        let ran = f.runs(command);
        assert_eq!(ran.err, "", "{command}");
    }
    // Where a device is what is asked about, it is named.
    let ran = f.runs("plan --context 48 --horizon 8 --batch 4 --device auto");
    assert!(ran.out.contains("device cpu"), "{}", ran.out);
}

#[test]
fn a_run_may_go_on_on_another_device() {
    let f = folder();
    f.runs(&format!("{SMALL} --max-steps 1 --out run --device cpu"));
    let ran = f.runs("train --resume run --max-steps 2");
    assert!(!ran.err.contains("goes on on"), "{}", ran.err);
    let configuration =
        f.read("run/config.toml").replace("computed-on = \"cpu\"", "computed-on = \"cuda:1\"");
    f.write("run/config.toml", configuration);
    let ran = f.runs("train --resume run --max-steps 3");
    let note = "note: the run computed on cuda:1 and goes on on cpu: its results differ by rounding from those of one device";
    assert!(ran.err.lines().any(|l| l == note), "{}", ran.err);
    assert!(f.read("run/config.toml").contains("computed-on = \"cpu\""));
    // A new run with these settings finds its own device.
    let hash = |out: &str| out.split("configuration ").nth(1).map(|t| t[..12].to_owned());
    let again = f.runs("train --config run/config.toml --out again");
    assert_eq!(hash(&again.out), hash(&ran.out));
}
