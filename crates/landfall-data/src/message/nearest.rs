//! Names near to one that is not there.

/// Most names that a message offers.
const MOST: usize = 3;

/// The names nearest to another one, of which at most two letters of five differ, and those that begin with it or with which it
/// begins; the nearest first.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
        letters.take(LONGEST).collect()
    };
    let own = plain(name);
    let near = |known: &'a str| {
        let other = plain(known);
        let (distance, longer) = (distance(&own, &other), own.len().max(other.len()));
        let begins = own.len().min(other.len()) > 2 && (own.starts_with(&other) || other.starts_with(&own));
        (distance * 5 <= longer * 2 || begins).then_some((distance, known))
    };
    let mut near: Vec<(usize, &str)> = known.into_iter().filter_map(near).collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Most letters that are compared.
const LONGEST: usize = 64;

/// How many letters are added, left out or changed between two names.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A message about an unknown name, with the names nearest to it instead of all where there are some.
pub fn with_nearest(message: &str) -> String {
    let split = message.split_once("`, expected one of ");
    let Some((start, (known, name))) =
        split.and_then(|(start, known)| Some((start, (known, start.rsplit_once('`')?.1))))
    else {
        return message.to_owned();
    };
    match nearest(name, known.split(", ").map(|known| known.trim_matches('`'))).as_slice() {
        [] => message.to_owned(),
        [one] => format!("{start}`; the nearest name is `{one}`"),
        several => format!("{start}`; the nearest names are `{}`", several.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use crate::message::nearest::nearest;

    #[test]
    fn names_with_a_slip_are_found() {
        let known =
            ["learning-rate", "lr", "horizon", "seed", "max-steps", "checkpoint-every", "Sales", "max"];
        for (name, expected) in [
            ("max_step", &["max-steps", "max"][..]),
            ("horizn", &["horizon"]),
            ("sales", &["Sales"]),
            ("checkpoint", &["checkpoint-every"]),
            ("x", &[]),
            ("", &[]),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }
}
