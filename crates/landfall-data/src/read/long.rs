//! Which columns say what series a row belongs to.

use crate::cells::cell::Cell;
use crate::cells::numbers::{Number, NumberForm};
use crate::dates::purpose::Purpose;
use crate::read::dates::words::TimeName;
use crate::read::sheet::Sheet;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Most columns that are combined.
const MOST: usize = 3;

/// Most columns of which some are combined.
const MOST_LIKELY: usize = 24;

/// Names of columns that name series: the whole name, or its last word.
const IDS: [&str; 7] = ["id", "ids", "uid", "uuid", "series", "tsid", "uniqueid"];

/// Last words in names of what has a series of its own.
const THINGS: [&str; 24] = [
    "store",
    "shop",
    "item",
    "sku",
    "product",
    "site",
    "station",
    "sensor",
    "meter",
    "ticker",
    "symbol",
    "household",
    "building",
    "device",
    "machine",
    "asset",
    "entity",
    "customer",
    "well",
    "turbine",
    "patient",
    "subject",
    "user",
    "article",
];

/// The fewest columns whose values, together with the time, tell all rows apart that are not equal in every cell; of as
/// many the ones with the fewest series. `None` where none do. `taken` are the fields of the time.
///
/// A column may name series if it holds text, or whole numbers with at least three rows for each on average, and no cell
/// is empty.
pub(crate) fn series_columns<T: Copy + Eq + Hash>(
    sheet: &Sheet,
    times: &[T],
    taken: &[usize],
    purpose: Purpose,
) -> Option<Vec<usize>> {
    let likely = likely(sheet, taken);
    let distinct = distinct_rows(sheet);
    let mut chosen: Vec<Vec<usize>> = vec![Vec::new()];
    // A request does not choose how long its reading takes.
    let most = if matches!(purpose, Purpose::Request | Purpose::Unknown) { 1 } else { MOST };
    for _ in 0..most {
        let longer = chosen.iter().flat_map(|some| {
            let after = some.last().map_or(0, |last| last + 1);
            (after..likely.len()).map(move |next| some.iter().copied().chain([next]).collect())
        });
        chosen = longer.collect();
        let series = |some: &Vec<usize>| {
            let columns: Vec<&Likely> = some.iter().filter_map(|at| likely.get(*at)).collect();
            let (mut rows, mut names) = (HashSet::new(), HashSet::new());
            let unique = distinct.iter().all(|&row| {
                let key = key(&columns, row);
                names.insert(key.clone());
                rows.insert((times.get(row), key))
            });
            unique.then_some(names.len())
        };
        let best =
            chosen.iter().filter_map(|some| Some((series(some)?, some))).min_by_key(|(names, _)| *names);
        if let Some((_, some)) = best {
            return Some(some.iter().filter_map(|at| likely.get(*at).map(|column| column.field)).collect());
        }
    }
    None
}

/// The columns that name series of which no two have a row of one time: those whose names say so, or one whose times go back where
/// the next series begins. Of columns that name the same series the fewest.
pub(crate) fn series_apart<T: Copy + Ord>(sheet: &Sheet, times: &[T], taken: &[usize]) -> Option<Vec<usize>> {
    let likely = likely(sheet, taken);
    let whole = |columns: &[&Likely]| in_blocks(columns, times.len());
    let named: Vec<&Likely> = likely.iter().filter(|column| column.rank == Rank::Id).collect();
    // Rows that are told by an id may stand in any order; whole numbers under such a name may number something else.
    let ids: Vec<&Likely> =
        named.into_iter().filter(|column| column.text || whole(&[column])).take(MOST).collect();
    if !ids.is_empty() {
        return Some(fewest(&ids, times.len()));
    }
    let things: Vec<&Likely> = likely.iter().filter(|column| column.rank == Rank::Thing).take(MOST).collect();
    if !things.is_empty() && whole(&things) {
        return Some(fewest(&things, times.len()));
    }
    likely
        .iter()
        .find(|column| whole(&[column]) && begins_anew(column, times))
        .map(|column| vec![column.field])
}

/// What the name of a column says of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Id,
    Thing,
    Other,
}

impl Rank {
    fn of(name: &str) -> Self {
        let lower = name.to_lowercase();
        let words: Vec<&str> =
            lower.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
        // `itemId`, of which lower case leaves one word.
        let capital = name.ends_with("Id") || name.ends_with("ID");
        match words.last() {
            Some(last) if IDS.contains(last) || capital => Self::Id,
            Some(last) if THINGS.contains(last) => Self::Thing,
            Some(_) | None => Self::Other,
        }
    }
}

/// A column that may name series.
struct Likely {
    field: usize,
    rank: Rank,
    text: bool,
    /// Its values, each by the number of its first use.
    values: Vec<usize>,
}

/// The columns that may name series, those whose names say so first.
fn likely(sheet: &Sheet, taken: &[usize]) -> Vec<Likely> {
    let taken: HashSet<usize> = taken.iter().copied().collect();
    let free = (0..sheet.names.len()).filter(|field| !taken.contains(field));
    let mut likely: Vec<Likely> = free.filter_map(|field| numbered(sheet, field)).collect();
    if likely.len() > MOST_LIKELY {
        likely.sort_by_key(|column| column.rank);
        likely.truncate(MOST_LIKELY);
        likely.sort_by_key(|column| column.field);
    }
    likely
}

/// A column that may name series.
fn numbered(sheet: &Sheet, field: usize) -> Option<Likely> {
    let cells = || sheet.cells(field);
    if cells().any(Cell::is_missing) {
        return None;
    }
    let mut numbers = HashMap::new();
    let values: Vec<usize> = cells()
        .map(|cell| {
            let next = numbers.len();
            *numbers.entry(cell).or_insert(next)
        })
        .collect();
    let text = cells().any(|cell| cell.number(NumberForm::POINT) == Number::Text);
    let whole = || cells().all(Cell::is_count);
    let few = numbers.len() * 3 <= values.len();
    let rank = Rank::of(sheet.names.get(field).map_or("", String::as_str));
    (numbers.len() > 1 && few && (text || whole())).then_some(Likely { field, rank, text, values })
}

/// The values of columns in a row.
fn key(columns: &[&Likely], row: usize) -> Vec<usize> {
    columns.iter().filter_map(|column| column.values.get(row).copied()).collect()
}

/// Whether the rows of each series stand behind each other.
fn in_blocks(columns: &[&Likely], rows: usize) -> bool {
    let (mut seen, mut before) = (HashSet::new(), None);
    (0..rows).all(|row| {
        let key = key(columns, row);
        let same = before.as_ref() == Some(&key);
        before = Some(key.clone());
        same || seen.insert(key)
    })
}

/// Whether times ascend in each series and go back where the next one begins, at least once.
fn begins_anew<T: Copy + Ord>(column: &Likely, times: &[T]) -> bool {
    let rows = || times.iter().zip(&column.values);
    let pairs = || rows().zip(rows().skip(1));
    let ascends = pairs().all(|((a, x), (b, y))| x != y || a < b);
    ascends && pairs().any(|((a, x), (b, y))| x != y && b < a)
}

/// The fewest of these columns that name as many series as all of them.
fn fewest(columns: &[&Likely], rows: usize) -> Vec<usize> {
    let count = |some: &[&Likely]| (0..rows).map(|row| key(some, row)).collect::<HashSet<_>>().len();
    let all = count(columns);
    let subsets = (1_usize..1 << columns.len()).map(|bits| {
        let some = columns.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        some.map(|(_, column)| *column).collect::<Vec<_>>()
    });
    let found = subsets.filter(|some| count(some) == all).min_by_key(Vec::len);
    found.unwrap_or_default().iter().map(|column| column.field).collect()
}

/// The rows of which none before is equal in every cell.
fn distinct_rows(sheet: &Sheet) -> Vec<usize> {
    let mut seen = HashSet::new();
    (0..sheet.len()).filter(|row| seen.insert(sheet.whole(*row))).collect()
}

/// A column that counts the rows of each series.
pub(crate) struct Steps {
    pub(crate) field: usize,
    pub(crate) values: Vec<i64>,
    /// The columns that name the series.
    pub(crate) ids: Vec<usize>,
}

impl Steps {
    /// The column of whole numbers that counts the rows of each series in a file without dates, by a name such as `ds` or `step`.
    /// `given` are the columns that name the series, where they are known.
    pub(crate) fn find(
        sheet: &Sheet,
        given: Option<&[usize]>,
        taken: &[usize],
        purpose: Purpose,
    ) -> Option<Self> {
        const NAMES: [&str; 8] = ["step", "steps", "t", "index", "idx", "timestep", "row", "n"];
        let called = |field: &usize| {
            let name = sheet.column_name(*field);
            TimeName::of(&name).is_some() || NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
        };
        let read: HashSet<usize> = taken.iter().copied().collect();
        let free = (0..sheet.names.len()).filter(|field| !read.contains(field));
        free.filter(called).find_map(|field| {
            let values: Vec<i64> = sheet.cells(field).map(count).collect::<Option<_>>()?;
            let taken: Vec<usize> = taken.iter().copied().chain([field]).collect();
            let repeats = values.iter().collect::<HashSet<_>>().len() < values.len();
            let ids = match given {
                Some(ids) => ids.to_vec(),
                None if repeats => series_columns(sheet, &values, &taken, purpose)?,
                None => series_apart(sheet, &values, &taken)?,
            };
            even(sheet, &values, &ids).then_some(Self { field, values, ids })
        })
    }
}

/// A whole number, also where it was made a float.
fn count(cell: Cell<'_>) -> Option<i64> {
    match cell.number(NumberForm::POINT) {
        Number::Finite(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(x as i64),
        Number::Finite(_) | Number::Missing | Number::Infinite | Number::Text => None,
    }
}

/// Whether the numbers of each series have one step, rows that are there twice aside, and most series begin alike or go on.
fn even(sheet: &Sheet, values: &[i64], ids: &[usize]) -> bool {
    let mut series: HashMap<Vec<Cell<'_>>, Vec<i64>> = HashMap::new();
    for row in distinct_rows(sheet) {
        let id = ids.iter().map(|field| sheet.cell(row, *field)).collect();
        series.entry(id).or_default().extend(values.get(row));
    }
    let mut steps = HashSet::new();
    for numbers in series.values_mut() {
        numbers.sort_unstable();
        steps.extend(numbers.windows(2).filter_map(|pair| pair.last()?.checked_sub(*pair.first()?)));
    }
    steps.len() == 1 && !steps.contains(&0)
}
