//! Runs each program of a release through its commands, and compares what it writes with what the first one writes.

use super::targets::Target;
use crate::http;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands, in order. The simulated series are the data of the others.
const LINES: [&str; 10] = [
    "doctor",
    "simulate --count 1 --length 160 --seed 7 --parts -missing --out d.csv",
    "train --data d.csv --horizon 12 --model dlinear --max-steps 40 --seed 1 --threads 2 --device cpu --out linear",
    "train --data d.csv --horizon 12 --model patchtst --context 24 --max-steps 10 --seed 1 --threads 2 --device cpu --out net",
    "forecast linear --out linear.csv",
    "forecast net --out net.csv",
    "forecast --data d.csv --horizon 12 --out pretrained.csv",
    "evaluate linear",
    "report linear",
    "export linear --onnx linear.onnx",
];
/// Forecasts and data that are compared.
const FILES: [&str; 5] = ["d.csv", "linear.csv", "net.csv", "pretrained.csv", "served.csv"];

/// What a program did.
struct Walk {
    folder: tempfile::TempDir,
    /// The commands that passed, and what the first that did not says.
    passed: usize,
    failed: Option<String>,
}

/// Runs these programs, by the folder of each in `dist`, and prints the table.
pub(super) fn run(dist: &Path, targets: &[(&Target, String)]) -> Result<(), String> {
    let mut rows = Vec::new();
    let mut first: Option<(&str, Walk)> = None;
    let mut failed = false;
    for (target, folder) in targets {
        let program = dist.join(folder).join(target.program());
        let ran =
            if program.exists() { target.command(&program).map(|_| ()) } else { Err("not built".to_owned()) };
        if let Err(why) = ran {
            rows.push(format!("| `{}` | not run: {why} | |", target.triple));
            continue;
        }
        let walk = walk(target, &program)?;
        failed |= walk.failed.is_some();
        let commands = match &walk.failed {
            None => format!("all {}", walk.passed),
            Some(why) => format!("{} of {}; {why}", walk.passed, LINES.len() + 1),
        };
        let files = match &first {
            None => "compared with".to_owned(),
            Some((name, reference)) => format!("{} `{name}`", compared(&walk, reference)),
        };
        rows.push(format!("| `{}` | {commands} | {files} |", target.triple));
        first.get_or_insert((target.triple, walk));
    }
    println!("| target | commands of the program | data and forecasts |\n|---|---|---|\n{}", rows.join("\n"));
    if failed { Err("a command failed".to_owned()) } else { Ok(()) }
}

/// Runs the commands in a new folder, then serves.
fn walk(target: &Target, program: &Path) -> Result<Walk, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let begin = || {
        let mut command = target.command(program)?;
        command.current_dir(folder.path()).stdin(Stdio::null());
        Ok::<_, String>(command)
    };
    let mut walk = (0, None);
    for line in LINES {
        let ran = begin()?.args(line.split(' ')).output().map_err(|e| format!("{line}: {e}"))?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            walk.1 = Some(format!("`{line}`: {}: {}", ran.status, said.lines().last().unwrap_or_default()));
            break;
        }
        walk.0 += 1;
    }
    if walk.1.is_none() {
        match serve(begin()?, folder.path()) {
            Ok(()) => walk.0 += 1,
            Err(why) => walk.1 = Some(format!("`serve`: {why}")),
        }
    }
    Ok(Walk { folder, passed: walk.0, failed: walk.1 })
}

/// Asks a server for the forecast of the data.
fn serve(mut command: Command, folder: &Path) -> Result<(), String> {
    let arguments = ["serve", "linear", "--port", "0", "--device", "cpu"];
    let mut server = command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let answer = server.stdout.take().ok_or_else(|| "no output".to_owned()).and_then(|out| {
        let mut said = String::new();
        BufReader::new(out).read_line(&mut said).map_err(|e| e.to_string())?;
        let address =
            said.trim().rsplit_once("http://").ok_or_else(|| format!("it says {said:?}"))?.1.to_owned();
        let body = std::fs::read(folder.join("d.csv")).map_err(|e| format!("d.csv: {e}"))?;
        let mut stream = TcpStream::connect(&address).map_err(|e| format!("{address}: {e}"))?;
        stream.write_all(&http::post("/forecast", "text/csv", &body)).map_err(|e| e.to_string())?;
        http::read(&mut BufReader::new(stream))?.ok_or_else(|| "no answer".to_owned())
    });
    // It is ended whatever it answered.
    let ended = server.kill().and_then(|()| server.wait()).map_err(|e| e.to_string());
    let answer = answer?;
    ended?;
    if answer.code != 200 {
        return Err(format!("{}: {}", answer.code, String::from_utf8_lossy(&answer.body)));
    }
    std::fs::write(folder.join("served.csv"), &answer.body).map_err(|e| format!("served.csv: {e}"))
}

/// Which files have the bytes of the reference, and how far the numbers of the others are from its.
fn compared(walk: &Walk, reference: &Walk) -> String {
    let text = |of: &Walk, name: &str| std::fs::read_to_string(of.folder.path().join(name)).ok();
    let differing = FILES.iter().filter_map(|name| {
        let (ours, theirs) = (text(walk, name), text(reference, name));
        (ours != theirs).then(|| match ours.zip(theirs).and_then(|(a, b)| distance(&a, &b)) {
            Some(distance) => format!("{name} within {distance:.1e}"),
            None => format!("{name} is another"),
        })
    });
    let differing: Vec<String> = differing.collect();
    if differing.is_empty() {
        "the bytes of".to_owned()
    } else {
        format!("{}; else the bytes of", differing.join(", "))
    }
}

/// The largest relative difference of two tables' numbers; none where something else differs.
fn distance(a: &str, b: &str) -> Option<f64> {
    let cells = |text: &str| text.split([',', '\n', '\r']).map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (cells(a), cells(b));
    if a.len() != b.len() {
        return None;
    }
    let pairs = a.iter().zip(&b).filter(|(a, b)| a != b);
    pairs.map(|(a, b)| Some((a.parse::<f64>().ok()?, b.parse::<f64>().ok()?))).try_fold(
        0.0,
        |most: f64, pair| {
            let (a, b) = pair?;
            Some(most.max((a - b).abs() / a.abs().max(b.abs())))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn tables_are_compared_by_number() {
        assert_eq!(distance("d,y\n1,2\n", "d,y\n1,2\n"), Some(0.0));
        assert_eq!(distance("d,y\n1,2\n", "d,y\n1,4\n"), Some(0.5));
        assert_eq!(distance("d,y\n1,2\n", "d,z\n1,2\n"), None);
        assert_eq!(distance("d,y\n1,2\n", "d,y\n1\n"), None);
    }
}
