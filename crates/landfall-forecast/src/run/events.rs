//! TensorBoard event files: TFRecord frames of `Event` messages with scalars, beside the metrics of a run.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How the names of event files begin; TensorBoard reads a folder's files in the order of their names.
pub(super) const PREFIX: &str = "events.out.tfevents.";

/// Appends scalars to a new event file.
#[derive(Debug)]
pub(super) struct Events {
    file: File,
}

impl Events {
    /// A new file in a run's folder, after all that are there. When a run goes on, `from` is the first step that it makes
    /// again: a reader drops what earlier files have of it and of later ones.
    pub(super) fn create(folder: &Path, from: Option<usize>) -> io::Result<Self> {
        let name = next_name(folder)?;
        let mut file = OpenOptions::new().create_new(true).append(true).open(folder.join(name))?;
        let mut bytes = Vec::new();
        // Field 3 is the version of the file; with this one a reader heeds the start of a session.
        frame(&mut bytes, &event(0, |m| length_delimited(m, 3, b"brain.Event:2")));
        if let Some(step) = from {
            // Field 7 is the session's log, its field 1 the status, START = 1.
            frame(&mut bytes, &event(step, |m| length_delimited(m, 7, &[0x08, 1])));
        }
        file.write_all(&bytes)?;
        Ok(Self { file })
    }

    /// Appends the scalars of some steps in one write.
    pub(super) fn add<'s>(
        &mut self,
        steps: impl IntoIterator<Item = (usize, &'s [(String, f64)])>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (step, scalars) in steps {
            if !scalars.is_empty() {
                frame(&mut bytes, &event(step, |m| length_delimited(m, 5, &summary(scalars))));
            }
        }
        self.file.write_all(&bytes)
    }
}

/// `events.out.tfevents.<seconds>.landfall.<number>`, after all names that are there.
fn next_name(folder: &Path) -> io::Result<String> {
    let (mut seconds, mut number) = (unix_time() as u64, 0u32);
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let then = rest.split('.').next().and_then(|digits| digits.parse().ok());
        seconds = seconds.max(then.unwrap_or(0));
        number += 1;
    }
    Ok(format!("{PREFIX}{seconds:010}.landfall.{number:06}"))
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// An `Event`: field 1 is the time, field 2 the step.
fn event(step: usize, what: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = vec![0x09];
    message.extend(unix_time().to_le_bytes());
    message.push(0x10);
    varint(&mut message, step as u64);
    what(&mut message);
    message
}

/// A `Summary`: its field 1 is a value, with the tag in field 1 and the number in field 2, in 32 bits.
fn summary(scalars: &[(String, f64)]) -> Vec<u8> {
    let mut message = Vec::new();
    for (tag, value) in scalars {
        let mut one = Vec::new();
        length_delimited(&mut one, 1, tag.as_bytes());
        one.push(0x15);
        one.extend((*value as f32).to_le_bytes());
        length_delimited(&mut message, 1, &one);
    }
    message
}

fn length_delimited(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, bytes.len() as u64);
    message.extend(bytes);
}

fn varint(message: &mut Vec<u8>, mut x: u64) {
    while x >= 0x80 {
        message.push(x as u8 | 0x80);
        x >>= 7;
    }
    message.push(x as u8);
}

/// A TFRecord: the length, its checksum, the data, their checksum.
fn frame(out: &mut Vec<u8>, data: &[u8]) {
    let length = (data.len() as u64).to_le_bytes();
    out.extend(length);
    out.extend(masked(crc32c(&length)).to_le_bytes());
    out.extend(data);
    out.extend(masked(crc32c(data)).to_le_bytes());
}

/// A checksum as TFRecord stores it.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(u32::MAX, step)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32C bit by bit, as in RFC 3720.
    fn checksum(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1));
            }
        }
        let crc = !crc;
        crc.rotate_right(15).wrapping_add(0xa282_ead8)
    }

    /// The data of all records of a file, checked.
    fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
            assert_eq!(word(8), checksum(&bytes[..8]));
            let data = &bytes[12..12 + length];
            assert_eq!(word(12 + length), checksum(data));
            all.push(data.to_vec());
            bytes = &bytes[16 + length..];
        }
        all
    }

    #[test]
    fn the_checksum_is_that_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn records_hold_the_scalars_and_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let scalars = [("train/loss".to_owned(), 0.5), ("train/learning_rate".to_owned(), 1e-3)];
        let mut first = Events::create(folder.path(), None).expect("a file");
        first.add([(300, &scalars[..]), (301, &[][..])]).expect("written");
        Events::create(folder.path(), Some(2)).expect("a second file");
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).expect("listed").map(|e| e.expect("an entry").path()).collect();
        names.sort();
        let read = |i: usize| records(&std::fs::read(&names[i]).expect("read"));
        let (first, second) = (read(0), read(1));
        assert_eq!((names.len(), first.len(), second.len()), (2, 2, 2));
        assert!(first[0].ends_with(b"\x10\x00\x1a\x0dbrain.Event:2"));
        let summary = [
            &b"\x10\xac\x02\x2a\x2f\x0a\x11\x0a\x0atrain/loss\x15\x00\x00\x00\x3f"[..],
            b"\x0a\x1a\x0a\x13train/learning_rate\x15",
            &1e-3f32.to_le_bytes(),
        ];
        assert!(first[1].ends_with(&summary.concat()), "{:?}", first[1]);
        assert!(second[1].ends_with(b"\x10\x02\x3a\x02\x08\x01"), "{:?}", second[1]);
    }
}
