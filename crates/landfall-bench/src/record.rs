//! The record of a bench: a CSV for each device and day.

use crate::error::BenchError;
use landfall::DeviceKind;
use landfall::cuda::{self, Gpu};
use landfall_forecast::run::processor;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The first line of every record.
pub(crate) const HEADER: [&str; 5] = ["row", "dtype", "ours_us", "best_peer_us", "peer"];

/// One line of a record; a row without a peer leaves the last two fields empty.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) row: String,
    pub(crate) dtype: String,
    pub(crate) ours_us: f64,
    pub(crate) peer: Option<(f64, String)>,
}

/// The record of this device and day.
pub(crate) fn path(root: &Path, device: &str) -> PathBuf {
    let today = chrono::DateTime::<chrono::Utc>::from(SystemTime::now()).format("%Y-%m-%d");
    root.join("bench/records").join(device).join(format!("{today}.csv"))
}

/// The device's name, fit for a file name: a GPU's, or the processor's and the number of threads.
pub(crate) fn device(kind: DeviceKind, threads: usize) -> String {
    let plural = if threads == 1 { "" } else { "s" };
    let on_processor = || format!("{} {threads} thread{plural}", processor());
    slug(&match kind {
        DeviceKind::Cuda(ordinal) => {
            let gpu = |gpus: Vec<Gpu>| gpus.into_iter().find(|g| g.ordinal == ordinal);
            cuda::survey().gpus.ok().and_then(gpu).map_or_else(|| kind.to_string(), |g| g.name)
        }
        DeviceKind::Cpu | DeviceKind::Null => on_processor(),
    })
}

fn slug(text: &str) -> String {
    let plain = text.to_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// Refuses a file that is there and is no record.
pub(crate) fn check(path: &Path) -> Result<(), BenchError> {
    let Some(text) = read(path)? else { return Ok(()) };
    let found = text.lines().next().unwrap_or_default();
    if found == HEADER.join(",") && text.ends_with('\n') {
        return Ok(());
    }
    Err(BenchError::NotARecord { path: path.to_owned(), found: found.to_owned(), header: HEADER.join(",") })
}

fn read(path: &Path) -> Result<Option<String>, BenchError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(BenchError::Record { path: path.to_owned(), why }),
    }
}

/// Adds lines to the record, which begins with the header.
pub(crate) fn append(path: &Path, lines: &[Line]) -> Result<(), BenchError> {
    check(path)?;
    let failed = |why: std::io::Error| BenchError::Record { path: path.to_owned(), why };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    let fresh = file.metadata().map_err(failed)?.len() == 0;
    let mut out = csv::Writer::from_writer(file);
    let written = |e: csv::Error| failed(e.into());
    if fresh {
        out.write_record(HEADER).map_err(written)?;
    }
    for line in lines {
        let (best, peer) = match &line.peer {
            Some((us, peer)) => (format!("{us:.2}"), peer.as_str()),
            None => (String::new(), ""),
        };
        let ours = format!("{:.2}", line.ours_us);
        out.write_record([&line.row, &line.dtype, &ours, &best, peer]).map_err(written)?;
    }
    out.flush().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(row: &str, peer: Option<(f64, String)>) -> Line {
        Line { row: row.to_owned(), dtype: "f32".to_owned(), ours_us: 1234.567, peer }
    }

    #[test]
    fn a_record_grows_under_one_header() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("device/2000-01-01.csv");
        append(&path, &[line("seed", Some((99.994, "torch-compile".to_owned())))]).expect("written");
        append(&path, &[line("etth1", None)]).expect("appended");
        let text = fs::read_to_string(&path).expect("read");
        assert_eq!(
            text,
            "row,dtype,ours_us,best_peer_us,peer\nseed,f32,1234.57,99.99,torch-compile\netth1,f32,1234.57,,\n"
        );
    }

    #[test]
    fn another_file_is_refused_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv");
        for text in ["row,us\nseed,1\n", "", "row,dtype,ours_us,best_peer_us,peer\nseed,f3"] {
            fs::write(&path, text).expect("written");
            let error = append(&path, &[line("seed", None)]).expect_err("refused").to_string();
            assert!(error.contains("is no record") && error.lines().count() == 1, "{error}");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
    }

    #[test]
    fn slugs_are_file_names() {
        assert_eq!(slug("Intel(R) Xeon(R) CPU @ 2.20GHz 2 threads"), "intel-xeon-cpu-2-20ghz-2-threads");
    }
}
