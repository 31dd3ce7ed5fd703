//! How a date is written, found from one cell: patterns in the notation of `strftime`.

/// A run of one kind of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Digits(&'a str),
    Word(&'a str),
    Mark(char),
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Characters that may stand between the parts of a date.
const MARKS: [char; 6] = ['-', '/', '.', ',', ' ', '_'];

/// Patterns that are believed only where none before them reads every cell.
pub(crate) const FALLBACKS: [&str; 6] = ["%d%m%Y", "%m%d%Y", "%G%V", "%y%m%d", "unix-s", "unix-ms"];

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, by the number of digits that they have today.
pub(crate) const UNIX: [(usize, &str); 4] =
    [(10, "unix-s"), (13, "unix-ms"), (16, "unix-us"), (19, "unix-ns")];

/// The patterns by which a cell may be read, the likelier ones first. More than one where only other cells can tell
/// which of two numbers is the day; none where the cell is no date.
pub(crate) fn patterns(text: &str) -> Vec<String> {
    let Some(tokens) = tokens(text) else { return Vec::new() };
    let colon = tokens.iter().position(|t| *t == Token::Mark(':')).and_then(|at| at.checked_sub(1));
    let (date, clock) = tokens.split_at(colon.unwrap_or(tokens.len()));
    let Some(clock) = clock_pattern(clock) else { return Vec::new() };
    date_patterns(date, colon.is_some()).into_iter().map(|date| date + &clock).collect()
}

/// The pattern of a time of day alone.
pub(crate) fn time_of_day(text: &str) -> bool {
    let time = tokens(text).filter(|t| t.get(1) == Some(&Token::Mark(':'))).and_then(|t| clock_pattern(&t));
    time.is_some_and(|pattern| !pattern.is_empty())
}

/// `None` for more than a date can have.
fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let run = |same: fn(&char) -> bool| rest.chars().take_while(same).map(char::len_utf8).sum::<usize>();
        let (length, token): (usize, fn(&str) -> Token<'_>) = if c.is_ascii_digit() {
            (run(char::is_ascii_digit), |run| Token::Digits(run))
        } else if c.is_ascii_alphabetic() {
            (run(char::is_ascii_alphabetic), |run| Token::Word(run))
        } else {
            (c.len_utf8(), |run| Token::Mark(run.chars().next().unwrap_or(' ')))
        };
        let (run, after) = rest.split_at(length);
        tokens.push(token(run));
        rest = after;
        if tokens.len() > 24 {
            return None;
        }
    }
    Some(tokens)
}

/// The pattern of a clock time: `h:mm`, seconds, their fraction, AM or PM, an offset from UTC. Empty for no tokens.
fn clock_pattern(tokens: &[Token<'_>]) -> Option<String> {
    let Some((Token::Digits(hour), mut rest)) = tokens.split_first() else {
        return tokens.is_empty().then(String::new);
    };
    if hour.len() > 2 {
        return None;
    }
    let mut text = String::from("%H");
    for part in ["%M", "%S"] {
        match rest {
            [Token::Mark(':'), Token::Digits(two), after @ ..] if two.len() == 2 => {
                text += &format!(":{part}");
                rest = after;
            }
            _ if part == "%M" => return None,
            _ => {}
        }
    }
    if let [Token::Mark('.'), Token::Digits(fraction), after @ ..] = rest
        && text.ends_with("%S")
        && fraction.len() <= 9
    {
        text += match fraction.len() {
            1..=3 => "%.3f",
            4..=6 => "%.6f",
            _ => "%.9f",
        };
        rest = after;
    }
    while let Some((&token, after)) = rest.split_first() {
        match (token, after) {
            (Token::Mark(' '), _) => text.push(' '),
            (Token::Word(half), _) if ["AM", "PM"].contains(&half) => {
                text = text.replacen("%H", "%I", 1) + "%p"
            }
            (Token::Word(half), _) if ["am", "pm"].contains(&half) => {
                text = text.replacen("%H", "%I", 1) + "%P"
            }
            (Token::Word(zone @ ("Z" | "UTC" | "GMT")), []) => text += zone,
            (Token::Mark('+' | '-'), [Token::Digits(h), Token::Mark(':'), Token::Digits(m)])
                if h.len() == 2 && m.len() == 2 =>
            {
                return Some(text + "%:z");
            }
            (Token::Mark('+' | '-'), [Token::Digits(offset)]) if offset.len() == 4 => {
                return Some(text + "%z");
            }
            (Token::Mark('+' | '-'), [Token::Digits(offset)]) if offset.len() == 2 => {
                return Some(text + "%#z");
            }
            _ => return None,
        }
        rest = after;
    }
    Some(text)
}

/// The name in a list that a word is or shortens to three letters: whether it is the full name.
fn named(word: &str, names: &[&str]) -> Option<bool> {
    let found = names.iter().find(|name| {
        word.eq_ignore_ascii_case(name) || name.get(..3).is_some_and(|short| word.eq_ignore_ascii_case(short))
    })?;
    Some(found.len() == word.len() && word.len() > 3)
}

/// What the words of a date say of its numbers.
#[derive(Default)]
struct Words {
    month: bool,
    quarter: bool,
    week: bool,
}

/// The patterns of a date; `clock` says whether a time follows.
fn date_patterns(tokens: &[Token<'_>], clock: bool) -> Vec<String> {
    let (mut words, mut text, mut numbers, mut bare_hour) =
        (Words::default(), String::new(), Vec::new(), false);
    for (i, token) in tokens.iter().enumerate() {
        match *token {
            // A place for a number, which the numbers together give a meaning.
            Token::Digits(digits) => {
                bare_hour = i > 0 && matches!(tokens.get(i - 1), Some(Token::Mark(' ') | Token::Word("T")));
                numbers.push(digits);
                text.push('\0');
            }
            Token::Mark(mark) if MARKS.contains(&mark) => text.push(mark),
            Token::Mark(_) => return Vec::new(),
            Token::Word(letter @ ("Q" | "q")) => {
                words.quarter = true;
                text += letter;
            }
            Token::Word(letter @ ("W" | "w")) => {
                words.week = true;
                text += letter;
            }
            // The months of statistical offices: 2020M01.
            Token::Word(letter @ ("M" | "m")) if i > 0 && tokens.len() == 3 => text += letter,
            Token::Word("T") if i > 0 => text.push('T'),
            Token::Word(word) => match (named(word, &MONTHS), named(word, &DAYS)) {
                (Some(full), _) if !words.month => {
                    words.month = true;
                    text += if full { "%B" } else { "%b" };
                }
                (None, Some(full)) => text += if full { "%A" } else { "%a" },
                _ => return Vec::new(),
            },
        }
    }
    let points = text.contains("\0.\0");
    let fields = |order: &[&str]| {
        let mut parts = text.split('\0');
        let first = parts.next().unwrap_or_default().to_owned();
        order.iter().zip(parts).fold(first, |whole, (field, part)| whole + field + part)
    };
    let lengths: Vec<usize> = numbers.iter().map(|n| n.len()).collect();
    orders(&words, &lengths, points, bare_hour && !clock).iter().map(|order| fields(order)).collect()
}

/// What numbers of these lengths are, in their order.
fn orders(words: &Words, lengths: &[usize], points: bool, hour: bool) -> Vec<Vec<&'static str>> {
    if let (true, [date @ .., 1 | 2], true) = (hour, lengths, lengths.len() == 4) {
        let with_hour = |mut order: Vec<&'static str>| {
            order.push("%H");
            order
        };
        return orders(words, date, points, false).into_iter().map(with_hour).collect();
    }
    let found: &[&[&str]] = match (words, lengths) {
        (Words { quarter: true, .. }, [4, 1]) => &[&["%Y", "%q"]],
        (Words { quarter: true, .. }, [1, 4]) => &[&["%q", "%Y"]],
        (Words { week: true, .. }, [4, 1 | 2]) => &[&["%G", "%V"]],
        (Words { week: true, .. }, [1 | 2, 4]) => &[&["%V", "%G"]],
        (Words { week: true, .. }, [4, 2, 1]) => &[&["%G", "%V", "%u"]],
        (Words { quarter: true, .. } | Words { week: true, .. }, _) => &[],
        (Words { month: true, .. }, [4]) => &[&["%Y"]],
        (Words { month: true, .. }, [2]) => &[&["%y"]],
        (Words { month: true, .. }, [1 | 2, 4]) => &[&["%d", "%Y"]],
        (Words { month: true, .. }, [4, 1 | 2]) => &[&["%Y", "%d"]],
        (Words { month: true, .. }, [1 | 2, 2]) => &[&["%d", "%y"]],
        (Words { month: true, .. }, _) => &[],
        (_, [4, 1 | 2, 1 | 2]) => &[&["%Y", "%m", "%d"]],
        (_, [1 | 2, 1 | 2, 4]) if points => &[&["%d", "%m", "%Y"]],
        (_, [1 | 2, 1 | 2, 4]) => &[&["%m", "%d", "%Y"], &["%d", "%m", "%Y"]],
        (_, [1 | 2, 1 | 2, 2]) if points => &[&["%d", "%m", "%y"]],
        (_, [1 | 2, 1 | 2, 2]) => &[&["%m", "%d", "%y"], &["%d", "%m", "%y"], &["%y", "%m", "%d"]],
        (_, [4, 1 | 2]) => &[&["%Y", "%m"]],
        (_, [1 | 2, 4]) => &[&["%m", "%Y"]],
        (_, [4, 3]) => &[&["%Y", "%j"]],
        (_, [8]) => &[&["%Y%m%d"], &["%d%m%Y"], &["%m%d%Y"]],
        (_, [7]) => &[&["%Y%j"]],
        (_, [6]) => &[&["%Y%m"], &["%G%V"], &["%y%m%d"]],
        (_, [4]) => &[&["%Y"]],
        (_, [10]) => &[&["%Y%m%d%H"], &["unix-s"]],
        (_, [12]) => &[&["%Y%m%d%H%M"], &["unix-ms"]],
        (_, [14]) => &[&["%Y%m%d%H%M%S"]],
        (_, [8, 6]) => &[&["%Y%m%d", "%H%M%S"]],
        (_, [8, 4]) => &[&["%Y%m%d", "%H%M"]],
        (_, [digits]) => match UNIX.iter().find(|(usual, _)| usual.abs_diff(*digits) <= 1) {
            Some((_, name)) => return vec![vec![name]],
            None => &[],
        },
        (_, _) => &[],
    };
    found.iter().map(|order| order.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use crate::dates::infer::patterns;

    #[test]
    fn a_cell_tells_how_dates_are_written() {
        for (text, expected) in [
            ("2016-07-01 00:00:00", &["%Y-%m-%d %H:%M:%S"][..]),
            ("2016-07-01T23:59:59.250Z", &["%Y-%m-%dT%H:%M:%S%.3fZ"]),
            ("2016-07-01 00:00:00+00:00", &["%Y-%m-%d %H:%M:%S%:z"]),
            ("2020-02-13 04:05:06-0230", &["%Y-%m-%d %H:%M:%S%z"]),
            ("1/2/2020 3:04 PM", &["%m/%d/%Y %I:%M %p", "%d/%m/%Y %I:%M %p"]),
            ("13.02.2020 13:00", &["%d.%m.%Y %H:%M"]),
            ("1949-01", &["%Y-%m"]),
            ("1991 Jul", &["%Y %b"]),
            ("Jan 1 2000", &["%b %d %Y"]),
            ("January 1, 2000", &["%B %d, %Y"]),
            ("Sat 1-Jan-00", &["%a %d-%b-%y"]),
            ("Jan-95", &["%b-%y"]),
            ("2020Q1", &["%YQ%q"]),
            ("Q1 2020", &["Q%q %Y"]),
            ("2020-W05", &["%G-W%V"]),
            ("2020-W05-1", &["%G-W%V-%u"]),
            ("20200213T040506", &["%Y%m%dT%H%M%S"]),
            ("2020-02-13 04", &["%Y-%m-%d %H"]),
            ("01-02-03", &["%m-%d-%y", "%d-%m-%y", "%y-%m-%d"]),
            ("1467331200", &["%Y%m%d%H", "unix-s"]),
            ("202001", &["%Y%m", "%G%V", "%y%m%d"]),
            ("2020001", &["%Y%j"]),
            ("2020M01", &["%YM%m"]),
            ("2020w5", &["%Gw%V"]),
            ("1467331200000", &["unix-ms"]),
            ("", &[]),
            ("7", &[]),
            ("3.14", &[]),
            ("2016--01", &["%Y--%m"]),
            ("2016-07-01 0:0", &[]),
            ("2016-07-01 00:00:00.", &[]),
            ("2016-07-01Z", &[]),
            ("2016-+7-01", &[]),
            ("2016-07-01 ::", &[]),
            ("Jan Feb 2000", &[]),
            ("ä016-07-01", &[]),
            ("10%", &[]),
        ] {
            assert_eq!(patterns(text), expected, "{text}");
        }
    }
}
