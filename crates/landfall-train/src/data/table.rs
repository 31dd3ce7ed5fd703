//! Series from a table: its rows told apart by series and put in the order of their dates, its values filled.

use super::dates::{DateSource, Dates, clock_changes, find_columns};
use super::error::{DataError, count};
use super::fill::{Filling, Holes};
use super::panel::Found;
use super::series::{Series, first_duplicate};
use super::sheet::{ReadOptions, Sheet};
use super::{columns, long};
use chrono::NaiveDateTime;
use std::collections::HashMap;

/// Makes series of a table, in the order of their first rows, and says what was found.
pub(super) fn assemble(mut sheet: Sheet, options: &ReadOptions) -> Result<(Vec<Series>, Found), DataError> {
    if sheet.rows.is_empty() {
        return Err(DataError::HeaderOnly { file: sheet.file });
    }
    sheet.name_columns();
    let file = || sheet.file.clone();
    let requested = options.columns.as_deref().unwrap_or_default();
    if let Some(name) = first_duplicate(requested) {
        return Err(DataError::RequestedTwice { file: file(), name: name.to_owned() });
    }
    let field = |name: &String| {
        let known = sheet.names.clone();
        let unknown = DataError::UnknownColumn { file: file(), name: name.clone(), known };
        sheet.names.iter().position(|n| n == name).ok_or(unknown)
    };
    let given = options.series_id.iter().flatten().map(field).collect::<Result<Vec<_>, _>>()?;
    let asked = (0..sheet.names.len()).filter(|f| sheet.names.get(*f).is_some_and(|n| requested.contains(n)));
    let mut taken: Vec<usize> = given.iter().copied().chain(asked).collect();
    let source = find_columns(&sheet, options, &taken)?;
    let date_fields = source.as_ref().map_or(&[][..], |source| &source.fields);
    taken.extend(date_fields);
    let ids = match &source {
        Some(source) if options.series_id.is_none() => series_of(&sheet, source, &taken),
        Some(_) | None => given,
    };
    let not_values: Vec<usize> = ids.iter().chain(date_fields).copied().collect();
    let columns = columns::read(&sheet, options, &not_values)?;
    let mut notes = std::mem::take(&mut sheet.notes);
    notes.extend(source.iter().filter_map(|source| source.dates.note.clone()));
    notes.extend(columns.notes.iter().cloned());
    let mut filling = Filling::new(options.fill, options.fill_gaps);
    let mut rows = Rows { sheet: &sheet, source: source.as_ref(), sorted: 0, dropped: 0, changes: 0 };
    let mut series = Vec::new();
    for (id, lines) in groups(&sheet, &ids)? {
        let (lines, dates) = rows.in_order(lines)?;
        let named = match &id {
            Some(id) => format!("{}, series `{id}`", sheet.file),
            None => sheet.file.clone(),
        };
        let of = |c: &columns::Column| {
            lines.iter().map(|&l| c.values.get(l).copied().unwrap_or(f64::NAN)).collect()
        };
        let names = columns.numbers.iter().map(|c| c.name.clone()).collect();
        let values = columns.numbers.iter().map(of).collect();
        let place = |row: usize| sheet.place(lines.get(row).copied().unwrap_or(row));
        let Holes { values, dates, .. } =
            filling.fill(Holes { source: &named, names: &names, values, dates }, place)?;
        let dates = source.as_ref().zip(dates).map(|(source, values)| {
            let (form, offset) = (source.dates.form.clone(), source.dates.offset);
            Dates::from_ascending(source.name.clone(), form, values, offset)
        });
        let one = Series::new(named, names, values, dates)?;
        series.push(match id {
            Some(id) => one.named(id),
            None => one,
        });
    }
    notes.extend(rows.notes());
    notes.extend(filling.notes());
    let name = |field: &usize| sheet.names.get(*field).cloned().unwrap_or_default();
    let found = Found {
        separator: sheet.separator,
        date_column: date_fields
            .iter()
            .map(name)
            .map(|n| if n.is_empty() { "date".to_owned() } else { n })
            .collect(),
        date_format: source.as_ref().map(|source| source.dates.form.pattern().to_owned()),
        series_id: ids.iter().map(name).collect(),
        notes,
    };
    Ok((series, found))
}

/// The columns that name the series, where dates repeat and no change of the clock explains it.
fn series_of(sheet: &Sheet, source: &DateSource, taken: &[usize]) -> Vec<usize> {
    let dates = &source.dates.values;
    let mut sorted = dates.clone();
    sorted.sort_unstable();
    let repeats = sorted.windows(2).any(|pair| pair.first() == pair.last());
    if !repeats || clock_changes(dates).is_some() {
        return Vec::new();
    }
    // Empty where none does: then the repeated date is an error with its lines.
    long::series_columns(sheet, dates, taken).unwrap_or_default()
}

/// The name of a series, where there are several, and its rows.
type Group = (Option<String>, Vec<usize>);

/// The rows of each series.
fn groups(sheet: &Sheet, ids: &[usize]) -> Result<Vec<Group>, DataError> {
    if ids.is_empty() {
        return Ok(vec![(None, (0..sheet.rows.len()).collect())]);
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (i, row) in sheet.rows.iter().enumerate() {
        if let Some(empty) = ids.iter().find(|field| row.cell(**field).is_empty()) {
            let column = sheet.names.get(*empty).cloned().unwrap_or_default();
            return Err(DataError::NoSeriesId { at: sheet.place(i), column });
        }
        let id = ids.iter().map(|field| row.cell(*field)).collect::<Vec<_>>().join("/");
        let place = *places.entry(id).or_insert_with_key(|id| {
            groups.push((Some(id.clone()), Vec::new()));
            groups.len() - 1
        });
        if let Some((_, rows)) = groups.get_mut(place) {
            rows.push(i);
        }
    }
    Ok(groups)
}

/// Puts the rows of series in order, and counts what that took.
struct Rows<'a> {
    sheet: &'a Sheet,
    source: Option<&'a DateSource>,
    /// Series whose rows were not in the order of their dates.
    sorted: usize,
    /// Rows that were there twice.
    dropped: usize,
    /// Changes of the clock.
    changes: usize,
}

impl Rows<'_> {
    /// The rows in the order of their dates, and these.
    fn in_order(&mut self, rows: Vec<usize>) -> Result<(Vec<usize>, Option<Vec<NaiveDateTime>>), DataError> {
        let Some(source) = self.source else { return Ok((rows, None)) };
        let date = |row: &usize| source.dates.values.get(*row).copied().unwrap_or_default();
        let mut dated: Vec<(NaiveDateTime, usize)> = rows.iter().map(|row| (date(row), *row)).collect();
        let ascend = |dated: &[(NaiveDateTime, usize)]| {
            dated.windows(2).all(|pair| pair.first().map(|p| p.0) < pair.last().map(|p| p.0))
        };
        if !ascend(&dated) {
            let given: Vec<NaiveDateTime> = dated.iter().map(|(date, _)| *date).collect();
            if let Some((moved, changes)) = clock_changes(&given) {
                self.changes += changes;
                return Ok((rows, Some(moved)));
            }
            self.sorted += usize::from(!given.is_sorted());
            dated.sort_by_key(|(date, _)| *date);
            dated = self.without_repeats(dated)?;
        }
        Ok((
            dated.iter().map(|(_, row)| *row).collect(),
            Some(dated.into_iter().map(|(date, _)| date).collect()),
        ))
    }

    /// Leaves out rows that are equal to the one before in every cell.
    fn without_repeats(
        &mut self,
        dated: Vec<(NaiveDateTime, usize)>,
    ) -> Result<Vec<(NaiveDateTime, usize)>, DataError> {
        let mut kept: Vec<(NaiveDateTime, usize)> = Vec::with_capacity(dated.len());
        let cells = |row: usize| self.sheet.rows.get(row).map(|row| &row.cells);
        for (date, row) in dated {
            match kept.last() {
                Some(&(before, first)) if before == date => {
                    if cells(first) != cells(row) {
                        let before = self.sheet.place(first).line;
                        return Err(DataError::DuplicateDate { at: self.sheet.place(row), before, date });
                    }
                    self.dropped += 1;
                }
                Some(_) | None => kept.push((date, row)),
            }
        }
        Ok(kept)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.sorted > 0 {
            notes.push("rows sorted by date".to_owned());
        }
        if self.dropped > 0 {
            notes.push(format!("{} left out that repeat others cell by cell", count(self.dropped, "row")));
        }
        if self.changes > 0 {
            let what = count(self.changes, "change");
            notes.push(format!(
                "{what} of the clock (an hour twice, or left out): dates are on the clock of the last row"
            ));
        }
        notes
    }
}
