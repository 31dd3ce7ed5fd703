//! `landfall bench` without other libraries, and with peers that are not there or misbehave.

mod program;

use program::Folder;

const ONE: &str = "bench --rows softmax/25600x5 --threads 2 --samples 1 --seconds 0.01";

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
    assert!(f.names().is_empty(), "{:?}", f.names());
}

#[test]
fn every_op_row_can_be_called() {
    let ran = Folder::new().runs("bench --rows ops --peers none --samples 1 --seconds 0.001 --json");
    let rows = ran.json()["rows"].as_array().expect("rows").len();
    assert!(rows > 30, "{rows}");
}

#[test]
fn a_record_of_two_runs() {
    let f = Folder::new();
    f.runs(&format!("{ONE} --peers none --record"));
    f.runs(&format!("{ONE} --peers none --record"));
    let devices = Folder::names_in(&f.path().join("bench/records"));
    assert!(devices.len() == 1 && devices[0].ends_with("-2-threads"), "{devices:?}");
    let folder = format!("bench/records/{}", devices[0]);
    let days = Folder::names_in(&f.path().join(&folder));
    let text: String = days.iter().map(|day| f.read(&format!("{folder}/{day}"))).collect();
    let rows = text.lines().filter(|l| l.starts_with("softmax/25600x5,f32,") && l.ends_with(",,")).count();
    assert_eq!(rows, 2, "{text}");
    let headers = text.lines().filter(|l| *l == "row,dtype,ours_us,best_peer_us,peer").count();
    assert_eq!(headers, days.len(), "{text}");
}

#[test]
fn bad_requests() {
    let f = Folder::new();
    let error = f.refused("bench --rows etth1,warp --peers none");
    assert!(
        error.starts_with(
            "unknown row `warp`; choose from steps, ops, routing, seed, etth1, wide, deep, cross-asset, "
        ),
        "{error}"
    );
    assert_eq!(
        f.refused("bench --rows routing --device cpu --peers none"),
        "--rows route-map/32768x7168x64x8: this row needs a GPU (--device cuda)"
    );
    assert_eq!(
        f.refused("bench --rows permute --dtypes tf32 --peers none"),
        "--dtypes tf32: routing rows are of f32 or bf16"
    );
    assert_eq!(f.refused("bench --samples 0 --peers none"), "--samples 0: it must be at least 1");
    assert_eq!(
        f.refused("bench --seconds -1 --peers none"),
        "--seconds -1: it must be above 0 and at most 60"
    );
    assert!(f.refused("bench --peers numpy").contains("[possible values: torch, jax, permutation, none]"));
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
