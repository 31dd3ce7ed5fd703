//! The file of a backtest's windows, which is written origin by origin and read again to go on.

use crate::error::CliError;
use landfall_forecast::backtesting::Rolling;
use landfall_forecast::report::{PredictedColumns, Predictions, Windows};
use landfall_train::data::{Series, WindowForecast};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The file, open at its end.
pub(super) struct File {
    pub(super) path: PathBuf,
    file: std::fs::File,
    /// Origins whose windows are in the file.
    pub(super) origins: usize,
    /// The values of the windows of the origin that is at work, with their places.
    held: Vec<(usize, usize, Vec<f64>)>,
}

impl File {
    /// A new file with its header.
    pub(super) fn new(path: &Path, rolling: &Rolling) -> Result<Self, CliError> {
        let failed = |why| CliError::Write { path: path.to_owned(), why };
        let mut file = match std::fs::File::create_new(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                return Err(CliError::OutExists(path.to_owned()));
            }
            Err(why) => return Err(failed(why)),
        };
        let mut text = Vec::new();
        Predictions::new(&mut text, series(rolling), columns(rolling), Windows::Cutoffs)
            .and_then(Predictions::finish)
            .and_then(|()| file.write_all(&text))
            .map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, origins: 0, held: Vec::new() })
    }

    /// Holds a window until its origin is complete.
    pub(super) fn add(&mut self, window: &WindowForecast<'_>) {
        self.held.push((window.series, window.start_row, window.values.to_vec()));
    }

    /// Writes the windows that are held: the origin is complete.
    pub(super) fn write(&mut self, rolling: &Rolling) -> Result<(), CliError> {
        let mut text = Vec::new();
        let mut written = || -> std::io::Result<()> {
            let mut table =
                Predictions::further(&mut text, series(rolling), columns(rolling), Windows::Cutoffs);
            for (series, start_row, values) in self.held.drain(..) {
                table.window(&rolling.window(series, start_row, &values))?;
            }
            table.finish()?;
            self.file.write_all(&text)?;
            self.file.flush()
        };
        written().map_err(|why| CliError::Write { path: self.path.clone(), why })?;
        self.origins += 1;
        Ok(())
    }

    /// Reads the complete origins of a file into the errors of a backtest, and drops what is there of another one.
    pub(super) fn resume(path: &Path, rolling: &mut Rolling) -> Result<Self, CliError> {
        let failed = |why| CliError::Write { path: path.to_owned(), why };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let whole = whole_lines(&mut file).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut reader = csv::Reader::from_reader(std::io::BufReader::new((&file).take(whole)));
        let other = |line: u64, found: String, expected: String| CliError::OtherBacktest {
            path: path.to_owned(),
            line,
            found,
            expected,
        };
        let header = Windows::Cutoffs.header(&series(rolling), columns(rolling));
        let found = reader.headers().map_err(|e| other(1, e.to_string(), "a header".to_owned()))?;
        if !found.iter().eq(header.iter().map(String::as_str)) {
            let found = found.iter().collect::<Vec<_>>().join(",");
            return Err(other(1, format!("the columns {found}"), header.join(",")));
        }
        let (targets, outputs, horizon) = rolling.sizes();
        let levels = rolling.levels().len();
        let (mut record, mut origin, mut kept) = (csv::StringRecord::new(), 0, reader.position().byte());
        'origins: while origin < rolling.origins().count() {
            let places = rolling.begin(origin)?;
            let mut windows = Vec::with_capacity(places.len());
            for &place in &places {
                let mut values = vec![0.0; targets * outputs * horizon];
                for step in 0..horizon {
                    if !reader.read_record(&mut record).map_err(|e| {
                        let line = e.position().map_or(0, csv::Position::line);
                        other(line, e.to_string(), "a row".to_owned())
                    })? {
                        break 'origins;
                    }
                    let line = record.position().map_or(0, csv::Position::line);
                    let names = rolling.row(origin, place, step);
                    let first = names.len();
                    if let Some((found, expected)) = record.iter().zip(&names).find(|(f, e)| f != e) {
                        return Err(other(line, format!("`{found}`"), format!("`{expected}`")));
                    }
                    let number = |cell: usize| {
                        let text = record.get(cell).unwrap_or_default();
                        text.parse::<f64>()
                            .map_err(|_| other(line, format!("`{text}`"), "a number".to_owned()))
                    };
                    let width = levels + 2;
                    for target in 0..targets {
                        let at = first + target * width;
                        let actual = rolling.actual(origin, place, target, step);
                        let found = number(at + width - 1)?;
                        if found != actual {
                            return Err(other(
                                line,
                                format!("the actual value {found:?}"),
                                format!("{actual:?}"),
                            ));
                        }
                        for level in 0..outputs {
                            let cell = if levels == 0 { at } else { at + 1 + level };
                            values[(target * outputs + level) * horizon + step] = number(cell)?;
                        }
                    }
                }
                windows.push((place, values));
            }
            for (place, values) in windows {
                rolling.add((origin, place), &values, &mut |_| Ok(()))?;
            }
            origin += 1;
            kept = reader.position().byte();
        }
        drop(reader);
        if origin == rolling.origins().count() && kept < whole {
            return Err(other(0, "further rows".to_owned(), format!("{origin} origins")));
        }
        file.set_len(kept).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, origins: origin, held: Vec::new() })
    }
}

/// Bytes of a file up to the end of its last whole line.
fn whole_lines(file: &mut std::fs::File) -> std::io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut part = [0u8; 4096];
    while end > 0 {
        let start = end.saturating_sub(part.len() as u64);
        let bytes = usize::try_from(end - start).unwrap_or(part.len());
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut part[..bytes])?;
        if let Some(last) = part[..bytes].iter().rposition(|b| *b == b'\n') {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn series(rolling: &Rolling) -> Vec<&Series> {
    rolling.panel().series().iter().collect()
}

fn columns(rolling: &Rolling) -> PredictedColumns<'_> {
    PredictedColumns { targets: rolling.panel().targets(), levels: rolling.levels(), bands: &[] }
}
