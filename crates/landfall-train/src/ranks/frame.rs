//! What travels over a connection once both sides know each other: frames of a kind, a number, a text and bytes.
//!
//! Little-endian: the kind in one byte, the number, the length of the text and that of the bytes in eight each; the text; the bytes.

use landfall::Signature;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The most bytes of a part. A longer one is refused before it is sent, and a frame that announces more is malformed.
const MAX_BYTES: u64 = 16 << 30;
/// The most bytes of a text.
const MAX_TEXT: u64 = 1 << 20;
const HEADER: usize = 25;
/// Up to this many bytes are sent at once, so that small frames are one packet.
const TOGETHER: usize = 1 << 16;
/// What is reserved for a frame before its bytes are there: it may announce more than ever comes.
const RESERVE: u64 = 64 << 20;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// To rank 0: a call with its number, what it is, and the part of the rank.
    Call,
    /// From rank 0: the part of the rank with that number.
    Part,
    /// From rank 0: why no call will be complete any more.
    Fault,
    /// To rank 0: why the rank gives up.
    Abort,
    /// From rank 0: all ranks came.
    Start,
    /// From rank 0: why it gives up before all ranks came.
    GiveUp,
}

const KINDS: [(Kind, u8); 6] = [
    (Kind::Call, 1),
    (Kind::Part, 2),
    (Kind::Fault, 3),
    (Kind::Abort, 4),
    (Kind::Start, 5),
    (Kind::GiveUp, 6),
];

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) bytes: Arc<[u8]>,
}

/// Why there is no frame.
#[derive(Debug)]
pub(super) enum Broken {
    /// Nothing came within the time limit of the connection.
    Silent,
    /// The other side is no longer there.
    Gone(String),
    /// What came is no frame.
    Malformed(String),
}

impl From<io::Error> for Broken {
    fn from(reason: io::Error) -> Self {
        if is_timeout(&reason) {
            Self::Silent
        } else if reason.kind() == io::ErrorKind::UnexpectedEof {
            Self::Gone("its connection closed".to_owned())
        } else {
            Self::Gone(format!("its connection broke ({reason})"))
        }
    }
}

/// Whether a connection waited for longer than it may. The kind depends on the system.
pub(super) fn is_timeout(reason: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&reason.kind())
}

/// Why a part cannot be sent: it is too long for a frame.
pub(super) fn excess(call: &Signature, part: &[u8]) -> Option<String> {
    let (text, bytes) = (call.what.len() as u64, part.len() as u64);
    let of = |what: &str, length, most| format!("its {what} has {length} bytes, more than {most}");
    if text > MAX_TEXT {
        return Some(of("call", text, MAX_TEXT));
    }
    (bytes > MAX_BYTES).then(|| of("part", bytes, MAX_BYTES))
}

impl Frame {
    /// A frame without bytes, whose text is cut where it would be too long.
    pub(super) fn text(kind: Kind, text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_TEXT as usize)];
        Self { kind, number: 0, text: text.to_owned(), bytes: Arc::default() }
    }

    /// Writes frames to a connection, small ones together.
    pub(super) fn write(all: &[Self], to: &mut impl Write) -> io::Result<()> {
        let mut buffer = Vec::new();
        for frame in all {
            let code = KINDS.iter().find(|(kind, _)| *kind == frame.kind).map_or(0, |(_, code)| *code);
            buffer.push(code);
            for number in [frame.number, frame.text.len() as u64, frame.bytes.len() as u64] {
                buffer.extend(number.to_le_bytes());
            }
            buffer.extend(frame.text.as_bytes());
            if buffer.len() + frame.bytes.len() <= TOGETHER {
                buffer.extend(&*frame.bytes);
                continue;
            }
            to.write_all(&buffer)?;
            to.write_all(&frame.bytes)?;
            buffer.clear();
        }
        to.write_all(&buffer)
    }

    /// The next one of a connection.
    pub(super) fn read(from: &mut impl Read) -> Result<Self, Broken> {
        let mut head = [0; HEADER];
        from.read_exact(&mut head)?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let Some((kind, _)) = KINDS.iter().find(|(_, code)| *code == head[0]) else {
            return Err(Broken::Malformed(format!("a message of unknown kind {}", head[0])));
        };
        let text = read_bytes(from, number(9), MAX_TEXT, "text")?;
        let text = String::from_utf8(text)
            .map_err(|_| Broken::Malformed("a message whose text is not UTF-8".to_owned()))?;
        let bytes = read_bytes(from, number(17), MAX_BYTES, "data")?.into();
        Ok(Self { kind: *kind, number: number(1), text, bytes })
    }
}

fn read_bytes(from: &mut impl Read, length: u64, most: u64, what: &str) -> Result<Vec<u8>, Broken> {
    if length > most {
        return Err(Broken::Malformed(format!("a message with {length} bytes of {what}, more than {most}")));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(RESERVE)).unwrap_or(0));
    from.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Err(Broken::Gone("its connection closed in the middle of a message".to_owned()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Broken, Frame, HEADER, KINDS, TOGETHER};

    fn written(frame: &Frame) -> Vec<u8> {
        let mut to = Vec::new();
        Frame::write(std::slice::from_ref(frame), &mut to).expect("memory");
        to
    }

    #[test]
    fn frames_come_back() {
        for (kind, _) in KINDS {
            for (text, bytes) in [("", 0), ("all_reduce Sum", 5), ("é", TOGETHER + 1)] {
                let bytes = vec![7; bytes].into();
                let frame = Frame { kind, number: u64::MAX - 1, text: text.to_owned(), bytes };
                let mut all = written(&frame);
                assert_eq!(all.len(), HEADER + text.len() + frame.bytes.len());
                all.extend([1, 2, 3]);
                let mut rest = &all[..];
                assert_eq!(Frame::read(&mut rest).expect("a frame"), frame);
                assert_eq!(rest, [1, 2, 3]);
            }
        }
    }

    #[test]
    fn several_frames_are_written_in_their_order() {
        let part = |number: u64, bytes: usize| {
            let bytes = vec![number as u8; bytes].into();
            Frame { kind: super::Kind::Part, number, text: String::new(), bytes }
        };
        let all: Vec<_> =
            (0..8).map(|i| part(i, [0, 3, TOGETHER - HEADER, 9, 2 * TOGETHER][i as usize % 5])).collect();
        let mut to = Vec::new();
        Frame::write(&all, &mut to).expect("memory");
        let mut rest = &to[..];
        let back: Vec<_> = all.iter().map(|_| Frame::read(&mut rest).expect("a frame")).collect();
        assert_eq!(back, all);
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_no_frame_is_named() {
        let whole = |kind: u8, text: u64, bytes: u64, rest: &[u8]| {
            let mut all = vec![kind];
            [9, text, bytes].iter().for_each(|n| all.extend(n.to_le_bytes()));
            all.extend(rest);
            all
        };
        let malformed = |all: Vec<u8>| match Frame::read(&mut &all[..]) {
            Err(Broken::Malformed(why)) => why,
            other @ (Ok(_) | Err(Broken::Silent | Broken::Gone(_))) => panic!("{other:?}"),
        };
        assert_eq!(malformed(whole(0, 0, 0, &[])), "a message of unknown kind 0");
        assert_eq!(malformed(whole(7, 0, 0, &[])), "a message of unknown kind 7");
        assert_eq!(malformed(whole(1, 1, 0, &[0xff])), "a message whose text is not UTF-8");
        let long = malformed(whole(1, (1 << 20) + 1, 0, &[]));
        assert_eq!(long, "a message with 1048577 bytes of text, more than 1048576");
        let long = malformed(whole(1, 0, u64::MAX, &[]));
        assert_eq!(long, format!("a message with {} bytes of data, more than 17179869184", u64::MAX));
    }

    #[test]
    fn a_frame_that_ends_early_is_gone() {
        let frame = Frame { bytes: [1; 9].into(), ..Frame::text(super::Kind::Call, "a call") };
        let all = written(&frame);
        for length in 0..all.len() {
            assert!(matches!(Frame::read(&mut &all[..length]), Err(Broken::Gone(_))), "{length}");
        }
    }
}
