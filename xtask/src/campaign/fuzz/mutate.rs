//! Mutations of bytes and of lines, fields and numbers in them.

use super::seeds::NUMBERS;
use crate::campaign::random::Random;

/// No input grows beyond this many bytes.
const LONGEST: usize = 1 << 16;

/// What is put into inputs.
const TOKENS: [&[u8]; 30] = [
    b",",
    b";",
    b"\t",
    b"|",
    b" ",
    b"\"",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"#",
    b"[",
    b"]",
    b"=",
    b"{}",
    b"'''",
    b"2020-02-30",
    b"9999-12-31",
    b"24:00",
    b"NA",
    b"%",
    b"$",
    "\u{a0}".as_bytes(),
    "\u{2212}1".as_bytes(),
];

/// Changes an input in one to six places; `other` lends parts.
pub(super) fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        let at = random.below(input.len() + 1);
        match random.below(13) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = (random.next() & 0xff) as u8;
                }
            }
            2 => input.truncate(at),
            3 => splice(input, at, at, TOKENS[random.below(TOKENS.len())]),
            4 => {
                let end = (at + random.below(40)).min(input.len());
                splice(input, at, end, &[]);
            }
            5 => {
                let from = random.below(other.len() + 1);
                let end = (from + random.below(200)).min(other.len());
                splice(input, at, at, &other[from..end]);
            }
            6 => {
                let (from, end) = line(input, at);
                let copy = input[from..end].to_vec().repeat(1 + random.below(4));
                splice(input, end, end, &copy);
            }
            7 => {
                let (from, end) = line(input, at);
                splice(input, from, end, &[]);
            }
            8 | 9 => number(input, at, random.pick(&NUMBERS).as_bytes()),
            10 => {
                let (was, is) = (random.pick(&TOKENS[..6])[0], random.pick(&TOKENS[..6])[0]);
                input.iter_mut().filter(|b| **b == was).for_each(|b| *b = is);
            }
            11 => {
                let (a, b) = (line(input, at), line(input, random.below(input.len() + 1)));
                if a.1 <= b.0 {
                    let (first, second) = (input[a.0..a.1].to_vec(), input[b.0..b.1].to_vec());
                    splice(input, b.0, b.1, &first);
                    splice(input, a.0, a.1, &second);
                }
            }
            _ => {
                let run = vec![random.pick(&TOKENS)[0]; random.below(2000)];
                splice(input, at, at, &run);
            }
        }
        input.truncate(LONGEST);
    }
}

fn splice(input: &mut Vec<u8>, from: usize, to: usize, by: &[u8]) {
    input.splice(from..to, by.iter().copied());
}

/// The line that holds a place, with its end.
fn line(input: &[u8], at: usize) -> (usize, usize) {
    let at = at.min(input.len());
    let from = input[..at].iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let end = input[at..].iter().position(|b| *b == b'\n').map_or(input.len(), |i| at + i + 1);
    (from, end)
}

/// Puts another number in the place of the next one.
fn number(input: &mut Vec<u8>, at: usize, by: &[u8]) {
    let digit = |b: &u8| b.is_ascii_digit() || *b == b'.';
    let Some(from) = input[at.min(input.len())..].iter().position(digit).map(|i| at + i) else { return };
    let end = input[from..].iter().position(|b| !digit(b)).map_or(input.len(), |i| from + i);
    splice(input, from, end, by);
}
