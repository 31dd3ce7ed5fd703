//! `landfall doctor`: what is there and what is missing, without failing.

mod program;

use landfall::cuda;
use program::{Folder, native};

#[test]
fn says_what_is_there_and_what_is_missing() {
    let f = Folder::new();
    let ran = f.command("doctor").env("LANDFALL_CACHE", f.path().join("cache")).output().expect("it starts");
    let out = String::from_utf8(ran.stdout).expect("UTF-8");
    assert_eq!(ran.status.code(), Some(0), "{out}");
    let survey = cuda::survey();
    let has = |start: &str| out.lines().find(|l| l.starts_with(start)).unwrap_or_default();
    assert!(has("cpu: ").contains("instruction set "), "{out}");
    match &survey.gpus {
        Ok(gpus) => {
            assert_eq!(out.lines().filter(|l| l.contains("compute capability")).count(), gpus.len(), "{out}")
        }
        Err(why) => assert_eq!(has("cuda: "), format!("cuda: no GPU can be used: {why}")),
    }
    let found = [
        ("NVIDIA driver", "everything on a GPU", survey.driver),
        ("NVRTC", "compiling kernels for the GPU at hand", survey.nvrtc),
        ("cuBLASLt", "matrix products on a GPU", survey.cublaslt),
        ("NCCL", "training on several GPUs", survey.nccl),
    ];
    for (name, purpose, found) in found {
        let line = has(name);
        match found {
            Ok(version) => {
                let of = if name == "NCCL" { "" } else { "CUDA " };
                assert!(line.starts_with(&format!("{name}: {of}{version}")), "{line}");
                assert!(line.contains(", /") && line.ends_with(&format!("; for {purpose}")), "{line}");
            }
            Err(why) => assert_eq!(line, format!("{name}: missing: {why}; it is for {purpose}")),
        }
    }
    let cache = has("compiled kernels: ");
    let folder = native("cache/kernels");
    assert!(cache.ends_with(&format!("{folder}, 0 files, 0.00 MiB, writable")), "{cache}");
    assert!(f.names().is_empty(), "{:?}", f.names());
}

#[test]
fn the_cache_is_measured() {
    let f = Folder::new();
    std::fs::create_dir_all(f.path().join("cache/kernels")).expect("made");
    f.write("cache/kernels/a.cubin", vec![0; 3 << 20]);
    let mut command = f.command("doctor --json");
    let ran = command.env("LANDFALL_CACHE", f.path().join("cache")).output().expect("it starts");
    let object: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let kernels = &object["kernels"];
    assert_eq!((kernels["files"].as_u64(), kernels["bytes"].as_u64()), (Some(1), Some(3 << 20)), "{object}");
    assert_eq!(kernels["writable"], true);
    assert_eq!(object["libraries"].as_array().expect("four").len(), 4);
    assert!(object["cpu"]["threads"].as_u64() >= Some(1));
}

#[test]
fn a_launch_is_told() {
    let f = Folder::new();
    let said = |variables: &[(&str, &str)]| {
        let mut command = f.command("doctor");
        for name in [
            "RANK",
            "LOCAL_RANK",
            "WORLD_SIZE",
            "MASTER_ADDR",
            "MASTER_PORT",
            "SLURM_STEP_ID",
            "LANDFALL_PORT",
        ] {
            command.env_remove(name);
        }
        let ran = command.envs(variables.iter().copied()).output().expect("it starts");
        let out = String::from_utf8(ran.stdout).expect("UTF-8");
        out.lines().find(|l| l.starts_with("ranks: ")).expect("a line").to_owned()
    };
    assert_eq!(said(&[]), "ranks: this process alone; neither torchrun nor srun launched it");
    let all = [
        ("RANK", "1"),
        ("LOCAL_RANK", "1"),
        ("WORLD_SIZE", "4"),
        ("MASTER_ADDR", "node1"),
        ("MASTER_PORT", "29500"),
    ];
    let launched = [&all[..], &[("LANDFALL_PORT", "4000")]].concat();
    assert_eq!(said(&launched), "ranks: rank 1 of 4; rank 0 listens at node1:4000");
    assert!(said(&all[..2]).contains("MASTER_ADDR"), "half of a launch");
}
