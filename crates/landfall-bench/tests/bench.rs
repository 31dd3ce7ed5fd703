//! The program without other libraries, and with peers that are not there or misbehave.

mod program;

use landfall::Engine;
use program::Folder;

const ONE: &str = "--rows softmax/25600x5 --threads 2 --samples 1 --seconds 0.01";

/// A folder of a peer with this program.
fn peer(program: &str) -> Folder {
    let f = Folder::new();
    std::fs::create_dir_all(f.path().join("bench/peers")).expect("made");
    f.write("bench/peers/torch_peer.py", program);
    f
}

/// A peer that answers every request with this line.
fn answers(line: &str) -> String {
    format!(
        "import sys\nif '--list-modes' in sys.argv:\n    print('{{\"modes\": [\"eager\"]}}')\n    sys.exit()\n\
         row = sys.argv[-1]\nsay = lambda s: print(s.replace('ROW', row), flush=True)\n\
         say('{{\"row\": \"ROW\", \"dtype\": \"f32\", \"mode\": \"eager\", \"warm_s\": 0.1}}')\n\
         say('{{\"ready\": true, \"version\": \"9\"}}')\n\
         for line in sys.stdin:\n    assert line == f'run {{row}} f32 eager\\n', line\n    say('{line}')\n"
    )
}

#[test]
fn one_op_alone() {
    let f = Folder::new();
    let ran = f.runs(&format!("{ONE} --peers none --json"));
    let object = ran.json();
    let row = &object["rows"][0];
    assert_eq!(row["row"], "softmax/25600x5");
    assert!(row["ours"]["us"].as_f64().is_some_and(|us| us > 0.0), "{row}");
    assert!(row["gb_per_s"].as_f64().is_some_and(|x| x > 0.0), "{row}");
    assert!(row.get("best_peer").is_none(), "{row}");
    assert!(f.names("").is_empty(), "{:?}", f.names(""));
}

#[test]
fn every_op_row_can_be_called() {
    let ran = Folder::new().runs("--rows ops --peers none --samples 1 --seconds 0.001 --json");
    let rows = ran.json()["rows"].as_array().expect("rows").len();
    assert!(rows > 30, "{rows}");
}

#[test]
fn a_record_of_two_runs() {
    let f = Folder::new();
    f.runs(&format!("{ONE} --peers none --record"));
    f.runs(&format!("{ONE} --peers none --record"));
    let devices = f.names("bench/records");
    assert!(devices.len() == 1 && devices[0].ends_with("-2-threads"), "{devices:?}");
    let folder = format!("bench/records/{}", devices[0]);
    let days = f.names(&folder);
    let text: String = days.iter().map(|day| f.read(&format!("{folder}/{day}"))).collect();
    let rows = text.lines().filter(|l| l.starts_with("softmax/25600x5,f32,") && l.ends_with(",,")).count();
    assert_eq!(rows, 2, "{text}");
    let headers = text.lines().filter(|l| *l == "row,dtype,ours_us,best_peer_us,peer").count();
    assert_eq!(headers, days.len(), "{text}");
}

#[test]
fn bad_requests() {
    let f = Folder::new();
    let error = f.refused("--rows etth1,warp --peers none");
    assert!(
        error.starts_with(
            "unknown row `warp`; choose from steps, ops, large, routing, seed, etth1, wide, deep, tide, tide-720, tsmixer, "
        ),
        "{error}"
    );
    assert_eq!(
        f.refused("--rows routing --device cpu --peers none"),
        "--rows route-map/32768x7168x64x8: this row needs a GPU (--device cuda)"
    );
    assert_eq!(
        f.refused("--rows permute --dtypes tf32 --peers none"),
        "--dtypes tf32: large and routing rows are of f32 or bf16"
    );
    assert_eq!(f.refused("--samples 0 --peers none"), "--samples 0: it must be at least 1");
    assert_eq!(f.refused("--seconds -1 --peers none"), "--seconds -1: it must be above 0 and at most 60");
    assert!(f.misused("--peers numpy").contains("[possible values: torch, jax, permutation, none]"));
    let error = f.misused("--peers none --device null");
    assert!(error.contains("null computes nothing; choose auto, cpu, cuda or cuda:N"), "{error}");
}

/// Without a GPU `auto` is the processor, which is named, and `cuda` is refused.
#[test]
fn the_device_of_a_computer_without_a_gpu() {
    let Err(why) = Engine::cuda(0) else {
        println!("skipped: there is a GPU");
        return;
    };
    let f = Folder::new();
    let ran = f.runs(&format!("{ONE} --peers none"));
    assert!(ran.err.lines().any(|l| l == "device cpu"), "{}", ran.err);
    let error = f.refused("--rows softmax --peers none --device cuda");
    assert_eq!(error, format!("device = \"cuda:0\": {why}; use device = \"cpu\""));
}

#[test]
fn a_peer_is_timed_in_turn() {
    let f = peer(&answers(r#"{"row": "ROW", "dtype": "f32", "mode": "eager", "us": 0.5}"#));
    let ran = f.runs(&format!("{ONE} --peers torch --json"));
    let object = ran.json();
    assert_eq!(object["rows"][0]["best_peer"], "torch-eager", "{object}\n{}", ran.err);
    assert_eq!(object["rows"][0]["peers"][0]["us"], 0.5, "{object}");
    assert_eq!(object["peers"][0]["version"], "9");
}

#[test]
fn a_peer_that_fails_is_left_out() {
    let unknown = "raise ModuleNotFoundError(\"No module named 'torch'\")";
    let garbled = answers("good morning");
    let hangs = "import time\ntime.sleep(600)";
    // Only the program that says nothing has a short limit: Python may start slowly on a busy machine.
    for (program, limit, says) in [
        (unknown, 300, "torch is left out: it ended: ModuleNotFoundError: No module named 'torch'"),
        (
            garbled.as_str(),
            300,
            "torch-eager is left out from here on: it said `good morning`, which is not of the protocol",
        ),
        (hangs, 1, "torch is left out: it said nothing for 1 s (--peer-limit)"),
    ] {
        let f = peer(program);
        let ran = f.runs(&format!("{ONE} --peers torch --peer-limit {limit} --json"));
        assert!(ran.err.contains(says), "{}", ran.err);
        assert!(ran.json()["rows"][0].get("best_peer").is_none(), "{}", ran.out);
    }
}

const PROFILE: &str = "--profile --rows seed --device cpu --threads 2 --samples 1";

/// The profile of a step: a table, every node as JSON, and a timeline of them; peers are not started.
#[test]
fn a_profile_of_a_step() {
    let f = peer("raise SystemExit('a peer was started')");
    let ran = f.runs(&format!("{PROFILE} --trace t.json"));
    assert!(!ran.err.contains("peer"), "{}", ran.err);
    for word in
        ["seed f32: train on ", "the host's clock", "GB/s", "f32 matmul", "distance", "adam", "attention"]
    {
        assert!(ran.out.contains(word), "{word}\n{}", ran.out);
    }
    let timeline: serde_json::Value = serde_json::from_str(&f.read("t.json")).expect("JSON");
    let events = timeline["traceEvents"].as_array().expect("events");
    let slices = events.iter().filter(|e| e["ph"] == "X").count();

    let object = f.runs(&format!("{PROFILE} --json")).json();
    let row = &object["rows"][0];
    assert_eq!((&row["row"], &row["dtype"]), (&"seed".into(), &"f32".into()));
    let profile = &row["profile"];
    assert_eq!(profile["timed"], "host", "{profile}");
    let nodes = profile["rows"].as_array().expect("nodes");
    assert_eq!((nodes.len(), profile["launches"].as_u64()), (slices, Some(slices as u64)));
    let sum = |key: &str| nodes.iter().filter_map(|n| n[key].as_u64()).sum::<u64>();
    assert_eq!(
        (Some(sum("bytes")), Some(sum("flops"))),
        (profile["bytes"].as_u64(), profile["flops"].as_u64())
    );
    assert!(nodes.iter().all(|n| n["op"].is_string() && n["us"].is_f64() && n["floor_us"].is_f64()));
}

#[test]
fn bad_requests_for_a_profile() {
    let f = Folder::new();
    assert_eq!(
        f.refused("--profile --rows seed,matmul"),
        "--profile and --rows matmul/6400x64x192: a profile is of whole steps; name rows of steps, such as seed or deep \
         (`--rows steps` is all of them)"
    );
    assert!(f.misused("--trace t.json").contains("--profile"));
    for other in ["--issued", "--record"] {
        let error = f.misused(&format!("--profile {other}"));
        assert!(error.contains(other) && error.contains("cannot be used with"), "{error}");
    }
    f.write("t.json", "{}");
    assert_eq!(f.refused(&format!("{PROFILE} --trace t.json")), "t.json exists already; choose another file");
}
