//! Which columns say what series a row belongs to, in a file that has several rows for a date.

use super::cell::Cell;
use super::numbers::{Number, NumberForm};
use super::purpose::Purpose;
use super::sheet::Sheet;
use chrono::NaiveDateTime;
use std::collections::{HashMap, HashSet};

/// Most columns that are combined.
const MOST: usize = 3;

/// Most columns of which some are combined: of more, each is tried alone.
const LIKELY: usize = 32;

/// The fewest columns whose values, together with the date, tell all rows apart that are not equal in every cell; of as
/// many the ones with the fewest series. `None` where none do. `taken` are the fields of the date.
///
/// A column may name series if it holds text, or whole numbers with at least three rows for each on average, and no cell
/// is empty.
pub(super) fn series_columns(
    sheet: &Sheet,
    dates: &[NaiveDateTime],
    taken: &[usize],
    purpose: Purpose,
) -> Option<Vec<usize>> {
    let taken: HashSet<usize> = taken.iter().copied().collect();
    let free = (0..sheet.names.len()).filter(|field| !taken.contains(field));
    let likely: Vec<(usize, Vec<usize>)> =
        free.filter_map(|field| Some((field, numbered(sheet, field)?))).collect();
    let distinct = distinct_rows(sheet);
    let mut chosen: Vec<Vec<usize>> = vec![Vec::new()];
    // A request does not choose how long its reading takes.
    let most = if purpose == Purpose::Request || likely.len() > LIKELY { 1 } else { MOST };
    for _ in 0..most {
        let longer = chosen.iter().flat_map(|some| {
            let after = some.last().map_or(0, |last| last + 1);
            (after..likely.len()).map(move |next| some.iter().copied().chain([next]).collect())
        });
        chosen = longer.collect();
        let series = |some: &Vec<usize>| {
            let columns: Vec<&Vec<usize>> =
                some.iter().filter_map(|at| likely.get(*at).map(|(_, values)| values)).collect();
            let key =
                |row: usize| columns.iter().filter_map(|values| values.get(row).copied()).collect::<Vec<_>>();
            let (mut rows, mut names) = (HashSet::new(), HashSet::new());
            let unique = distinct.iter().all(|&row| {
                names.insert(key(row));
                rows.insert((dates.get(row), key(row)))
            });
            unique.then_some(names.len())
        };
        let best =
            chosen.iter().filter_map(|some| Some((series(some)?, some))).min_by_key(|(names, _)| *names);
        if let Some((_, some)) = best {
            return Some(some.iter().filter_map(|at| likely.get(*at).map(|(field, _)| *field)).collect());
        }
    }
    None
}

/// The values of a column that may name series, each by the number of its first use.
fn numbered(sheet: &Sheet, field: usize) -> Option<Vec<usize>> {
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
    (numbers.len() > 1 && few && (text || whole())).then_some(values)
}

/// The rows of which none before is equal in every cell.
fn distinct_rows(sheet: &Sheet) -> Vec<usize> {
    let mut seen = HashSet::new();
    (0..sheet.len()).filter(|row| seen.insert(sheet.whole(*row))).collect()
}
