//! Runs that are interrupted, damaged, or written by two processes at once lose nothing and say what happened.

mod program;

use program::{Folder, SMALL, csv, native};
use serde_json::Value;

/// A folder with a small complete run in it.
fn trained() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(400));
    f.runs(&format!("{SMALL} --max-steps 2 --out run"));
    f
}

#[test]
fn one_flipped_bit_of_the_weights_is_refused() {
    let f = trained();
    let best = f.path().join("run/best.safetensors");
    let sound = std::fs::read(&best).expect("weights");
    for at in [sound.len() - 3, sound.len() / 2] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1 << 6;
        std::fs::write(&best, damaged).expect("written");
        let said = f.refused("forecast run");
        assert!(said.starts_with(&native("run/best.safetensors: the checksum does not match")), "{said}");
    }
    std::fs::write(&best, sound).expect("written");
    f.runs("forecast run");
}

#[test]
fn weights_of_another_program_need_no_checksum_and_must_be_finite() {
    let f = trained();
    let best = f.path().join("run/best.safetensors");
    let mut bytes = std::fs::read(&best).expect("weights");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let text = String::from_utf8(bytes[8..8 + length].to_vec()).expect("a header");
    let mut header: Value = serde_json::from_str(text.trim_end()).expect("JSON");
    let removed = header["__metadata__"].as_object_mut().expect("metadata").remove("sha256");
    assert!(removed.is_some(), "{text}");
    let header = header.to_string();
    let mut other = (header.len() as u64).to_le_bytes().to_vec();
    other.extend(header.as_bytes());
    other.extend(bytes.split_off(8 + length));
    std::fs::write(&best, &other).expect("written");
    f.runs("forecast run");

    // The last tensor's last element becomes NaN.
    let end = other.len();
    other[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&best, &other).expect("written");
    let said = f.refused("forecast run");
    assert!(said.contains("NaN as element") && said.contains("weights must be finite"), "{said}");
}

#[test]
fn a_newer_format_is_refused_and_an_older_one_is_read() {
    let f = trained();
    let config = f.read("run/config.toml");
    assert!(config.starts_with("version = 1\n"), "{config}");
    f.write("run/config.toml", config.replace("version = 1\n", "version = 7\n"));
    let said = f.refused("forecast run");
    assert!(said.contains("written in version 7 of the format, and this program reads up to 1"), "{said}");
    f.write("run/config.toml", config.replace("version = 1\n", ""));
    f.runs("forecast run");
}

#[test]
fn a_run_directory_has_one_writer() {
    let f = trained();
    let lock = std::fs::File::create(f.path().join("run/lock")).expect("a lock");
    lock.lock().expect("locked");
    let said = f.refused("train --resume run --max-steps 4");
    assert!(said.starts_with("run is in use: another process trains this run"), "{said}");
    // Readers do not wait.
    f.runs("forecast run");
    drop(lock);
    f.runs("train --resume run --max-steps 4");
}

#[test]
fn interrupted_seeds_go_on_where_they_were() {
    let f = Folder::new();
    f.write("d.csv", csv(400));
    let words = format!("{SMALL} --max-steps 3 --seeds 5,6 --json");
    let whole = f.runs(&format!("{words} --out whole")).json();
    f.runs(&format!("{words} --out half"));
    // As if the second seed had not begun.
    std::fs::remove_dir_all(f.path().join("half/seed-6")).expect("removed");
    std::fs::remove_file(f.path().join("half/summary.json")).expect("removed");
    let before = f.read("half/seed-5/metrics.jsonl");
    let resumed = f.runs("train --resume half --json").json();
    assert_eq!(resumed["mse"], whole["mse"]);
    assert_eq!(f.read("half/seed-5/metrics.jsonl"), before, "a finished seed is not trained again");
    let said = f.refused("train --resume half --lr 0.5");
    assert!(said.contains("the runs of several seeds keep their settings"), "{said}");
}

#[cfg(unix)]
#[test]
fn sigterm_and_sighup_save_a_checkpoint() {
    let f = Folder::new();
    f.write("d.csv", csv(2000));
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        let run = format!("run-{signal}");
        let words = format!("{SMALL} --epochs 1000 --checkpoint-every 100000 --out {run}");
        let mut command = f.command(&words);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("it starts");
        let metrics = f.path().join(&run).join("metrics.jsonl");
        while std::fs::metadata(&metrics).map_or(0, |m| m.len()) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let pid = child.id().to_string();
        assert!(
            std::process::Command::new("kill").args(["-s", signal, &pid]).status().expect("kill").success()
        );
        let ended = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{signal}: {said}");
        assert!(said.contains("checkpoint saved; resume with: landfall train --resume"), "{said}");
        let steps = f.read(&format!("{run}/metrics.jsonl")).lines().count();
        let resumed = f.runs(&format!("train --resume {run} --epochs 1 --json")).json();
        assert!(resumed["steps"].as_u64().expect("steps") as usize >= steps, "{resumed}");
    }
}
