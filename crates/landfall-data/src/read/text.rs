//! The text of a file, whatever it is encoded in.

use crate::error::DataError;
use crate::error::read::ReadError;
use crate::message::place::Place;
use std::borrow::Cow;

/// Text, and what a person has to know of how it was read.
pub(crate) type Decoded<'a> = (Cow<'a, str>, Option<String>);

/// The characters of Windows-1252 from byte 80 to 9f; where it has none, the control character of Latin-1.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '•', '–', '—', '\u{2dc}', '™', 'š', '›', 'œ', '\u{9d}',
    'ž', 'Ÿ',
];

/// Decodes UTF-8, UTF-16 with a byte order mark or, of a text that begins in ASCII, without, and Windows-1252, of which Latin-1 is
/// a part.
///
/// Windows-1252 gives almost every byte a character, so it is believed only where no byte stands for a control character.
pub(crate) fn decode<'a>(bytes: &'a [u8], file: &str) -> Result<Decoded<'a>, DataError> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes, file),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes, file),
        [first, 0, second, 0, ..] if *first > 0 && *second > 0 => utf16(bytes, u16::from_le_bytes, file),
        [0, first, 0, second, ..] if *first > 0 && *second > 0 => utf16(bytes, u16::from_be_bytes, file),
        _ => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let error = match std::str::from_utf8(bytes) {
                Ok(_) if bytes.contains(&0) => {
                    let before = bytes.split(|b| *b == 0).next().unwrap_or_default();
                    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
                    return Err(DataError::Read(ReadError::Binary { at: Place::line(file, line) }));
                }
                Ok(text) => return Ok((Cow::Borrowed(text), None)),
                Err(error) => error,
            };
            let decoded = |b: &u8| match b.checked_sub(0x80) {
                Some(high) => WINDOWS.get(usize::from(high)).copied().unwrap_or(char::from(*b)),
                None => char::from(*b),
            };
            let control = |b: &u8| decoded(b).is_control() && !b"\t\r\n".contains(b);
            if bytes.iter().any(control) {
                let before = bytes.get(..error.valid_up_to()).unwrap_or(bytes);
                return Err(not_text(file, before.iter().filter(|b| **b == b'\n').count()));
            }
            let windows = bytes.iter().any(|b| (0x80..0xa0).contains(b));
            let name = if windows { "Windows-1252" } else { "Latin-1" };
            let text = bytes.iter().map(decoded).collect();
            Ok((Cow::Owned(text), Some(format!("read as {name}, since it is not valid UTF-8"))))
        }
    }
}

fn utf16<'a>(bytes: &[u8], unit: fn([u8; 2]) -> u16, file: &str) -> Result<Decoded<'a>, DataError> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(pairs.len());
    for c in char::decode_utf16(pairs.iter().map(|&pair| unit(pair))) {
        let lines = |text: &str| text.matches('\n').count();
        text.push(c.map_err(|_| not_text(file, lines(&text)))?);
    }
    if !rest.is_empty() {
        return Err(not_text(file, text.matches('\n').count()));
    }
    Ok((Cow::Owned(text), Some("read as UTF-16".to_owned())))
}

fn not_text(file: &str, newlines: usize) -> DataError {
    DataError::Read(ReadError::NotUtf8 { at: Place::line(file, newlines + 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_told_apart() {
        let text = "date,température\n2020-01-01,1\n";
        let read = |bytes: &[u8]| decode(bytes, "f").map(|(text, note)| (text.into_owned(), note.is_some()));
        let same = |bytes: Vec<u8>, noted| assert_eq!(read(&bytes).expect("text"), (text.to_owned(), noted));
        same(text.into(), false);
        same([b"\xef\xbb\xbf", text.as_bytes()].concat(), false);
        same([vec![0xff, 0xfe], text.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat(), true);
        same([vec![0xfe, 0xff], text.encode_utf16().flat_map(u16::to_be_bytes).collect()].concat(), true);
        same(text.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect(), true);
        same(text.encode_utf16().flat_map(u16::to_le_bytes).collect(), true);
        let (euro, note) = decode(b"a,b \x80\n", "f").expect("Windows-1252");
        assert_eq!(
            (&*euro, note.as_deref()),
            ("a,b €\n", Some("read as Windows-1252, since it is not valid UTF-8"))
        );
        for (bytes, line) in [(&b"a\n1\n\x81"[..], 3), (b"\xff\xfea\0\n\0\0\xd8b\0", 2), (b"\xff\xfea", 1)] {
            let error = read(bytes).expect_err("no text").to_string();
            assert!(error.starts_with(&format!("f:{line}: not valid UTF-8")), "{error}");
        }
    }
}
