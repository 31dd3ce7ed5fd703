//! Series from a table: its rows told apart by series and put in the order of their dates, its values filled.

use crate::cells::cell::Cell;
use crate::dates::Dates;
use crate::dates::clock::changes as clock_changes;
use crate::dates::purpose::Purpose;
use crate::error::DataError;
use crate::error::limit::LimitError;
use crate::error::read::ReadError;
use crate::error::series::SeriesError;
use crate::message::count;
use crate::read::columns;
use crate::read::dates::{DateSource, check_series, check_unread, find as find_columns};
use crate::read::limit::Most;
use crate::read::long;
use crate::read::long::Steps;
use crate::read::number_form::FileMarks;
use crate::read::options::ReadOptions;
use crate::read::sheet::Sheet;
use crate::series::fill::{Filling, Holes};
use crate::series::found::Found;
use crate::series::{Series, first_duplicate};
use chrono::NaiveDateTime;
use std::collections::{HashMap, HashSet};

/// Which columns hold the date and name the series.
struct Roles {
    source: Option<DateSource>,
    ids: Vec<usize>,
    /// What counts the rows of each series, where no dates do.
    steps: Option<Steps>,
}

impl Roles {
    fn find(sheet: &Sheet, options: &ReadOptions) -> Result<Self, DataError> {
        let field = |name: &String| {
            sheet.names.iter().position(|n| n == name).ok_or_else(|| {
                let (file, known) = (sheet.file.clone(), sheet.names.clone());
                DataError::Series(SeriesError::UnknownColumn { file, name: name.clone(), known })
            })
        };
        let given = options.series_id.iter().flatten().map(field).collect::<Result<Vec<_>, _>>()?;
        let wanted: HashSet<&String> =
            options.columns.iter().flatten().chain(&options.categorical).chain(&options.named).collect();
        let asked = (0..sheet.names.len()).filter(|field| wanted.contains(&sheet.column_name(*field)));
        let mut taken: Vec<usize> = given.iter().copied().chain(asked).collect();
        let source = find_columns(sheet, options, &taken)?;
        taken.extend(source.iter().flat_map(|source| &source.fields));
        let known = options.series_id.as_ref().map(|_| given.as_slice());
        let steps = if source.is_none() { Steps::find(sheet, known, &taken, options.purpose) } else { None };
        let ids = match (&source, &steps) {
            (Some(source), _) if options.series_id.is_none() => {
                series_of(sheet, source, &taken, options.purpose)
            }
            (None, Some(steps)) => steps.ids.clone(),
            (Some(_), _) | (None, None) => given,
        };
        if options.series_id.is_none() {
            check_series(sheet, &ids, options)?;
        }
        if source.is_none() {
            taken.extend(ids.iter().copied().chain(steps.iter().map(|steps| steps.field)));
            check_unread(sheet, options, &taken)?;
        }
        Ok(Self { source, ids, steps })
    }

    fn date_fields(&self) -> &[usize] {
        self.source.as_ref().map_or(&[], |source| &source.fields)
    }

    /// What was found, for another reading.
    fn found(&self, sheet: &Sheet, marks: FileMarks, (notes, texts): (Vec<String>, Vec<String>)) -> Found {
        let name = |field: &usize| sheet.names.get(*field).cloned().unwrap_or_default();
        let dated =
            |field: &usize| Some(name(field)).filter(|n| !n.is_empty()).unwrap_or_else(|| "date".to_owned());
        Found {
            separator: sheet.separator,
            decimal: marks.decimal,
            thousands: marks.thousands,
            guessed: marks.guessed,
            date_column: self.date_fields().iter().map(dated).collect(),
            date_format: self.source.as_ref().map(|source| source.dates.form.pattern().to_owned()),
            series_id: self.ids.iter().map(name).collect(),
            notes,
            texts,
        }
    }
}

/// Makes series of a table, in the order of their first rows, and says what was found.
pub(crate) fn assemble(mut sheet: Sheet, options: &ReadOptions) -> Result<(Vec<Series>, Found), DataError> {
    if sheet.len() == 0 {
        return Err(DataError::Series(SeriesError::HeaderOnly { file: sheet.file }));
    }
    if let Some(name) = first_duplicate(options.columns.as_deref().unwrap_or_default()) {
        return Err(DataError::Series(SeriesError::RequestedTwice {
            file: sheet.file.clone(),
            name: name.to_owned(),
        }));
    }
    sheet.name_columns();
    let roles = Roles::find(&sheet, options)?;
    let source = roles.source.as_ref();
    let steps = roles.steps.as_ref();
    let counted = steps.map(|steps| steps.field);
    let not_values: Vec<usize> =
        roles.ids.iter().chain(roles.date_fields()).copied().chain(counted).collect();
    let purpose = options.purpose;
    let mut rows = Rows { sheet: &sheet, purpose, source, steps, sorted: 0, dropped: 0, changes: 0 };
    let mut ordered = Vec::new();
    for (id, lines) in groups(&sheet, &roles.ids, options.most)? {
        let (lines, dates) = rows.in_order(lines)?;
        ordered.push((id, lines, dates));
    }
    let of_rows = rows.notes();
    let columns = columns::read(&mut sheet, options, &not_values)?;
    let mut notes = std::mem::take(&mut sheet.notes);
    notes.extend(source.and_then(|source| source.dates.note.clone()));
    notes.extend(columns.notes);
    notes.extend(counted.filter(|_| options.columns.is_none()).map(|field| {
        format!("column `{}` left out: it counts the rows of each series", sheet.column_name(field))
    }));
    let names: Vec<String> = columns.numbers.iter().map(|c| c.name.clone()).collect();
    // Column by column, so that one alone is there twice.
    let mut values = vec![Vec::with_capacity(names.len()); ordered.len()];
    for column in columns.numbers {
        for ((_, lines, _), values) in ordered.iter().zip(&mut values) {
            values.push(lines.iter().filter_map(|&line| column.values.get(line).copied()).collect());
        }
    }
    let mut filling = Filling::new(options.fill, options.fill_gaps, &options.categorical, options.purpose);
    let mut series = Vec::new();
    for ((id, lines, dates), values) in ordered.into_iter().zip(values) {
        let named = match &id {
            Some(id) => format!("{}, series `{id}`", sheet.file),
            None => sheet.file.clone(),
        };
        let place = |row: usize| sheet.place(lines.get(row).copied().unwrap_or(row));
        let holes = Holes { source: &named, names: &names, values, dates, interpolated: Vec::new() };
        let Holes { values, dates, interpolated, .. } = filling.fill(holes, place)?;
        let dates = source.zip(dates).map(|(source, values)| {
            let (form, offset) = (source.dates.form.clone(), source.dates.offset);
            Dates::from_ascending(source.name.clone(), form, values, offset)
        });
        let one = Series::new(named, names.clone(), values, dates)?.with_interpolated(interpolated);
        series.push(match id {
            Some(id) => one.named(id),
            None => one,
        });
    }
    notes.extend(of_rows);
    notes.extend(filling.notes());
    let found = roles.found(&sheet, columns.marks, (notes, columns.texts));
    Ok((series, found))
}

/// The columns that name the series: where dates repeat and no change of the clock explains it, those that tell rows of one date
/// apart; else those that say by name or order that they do.
fn series_of(sheet: &Sheet, source: &DateSource, taken: &[usize], purpose: Purpose) -> Vec<usize> {
    let dates = &source.dates.values;
    let mut sorted = dates.clone();
    sorted.sort_unstable();
    let repeats = sorted.windows(2).any(|pair| pair.first() == pair.last());
    if !repeats {
        return long::series_apart(sheet, dates, taken).unwrap_or_default();
    }
    if clock_changes(dates).is_some() {
        return Vec::new();
    }
    // Empty where none does: then the repeated date is an error with its lines.
    long::series_columns(sheet, dates, taken, purpose).unwrap_or_default()
}

/// The name of a series, where there are several, and its rows.
type Group = (Option<String>, Vec<usize>);

/// The rows of each series.
fn groups(sheet: &Sheet, ids: &[usize], most: Option<Most>) -> Result<Vec<Group>, DataError> {
    if ids.is_empty() {
        return Ok(vec![(None, (0..sheet.len()).collect())]);
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut columns: Vec<_> = ids.iter().map(|field| sheet.cells(*field)).collect();
    let (mut key, mut before, mut last) = (Vec::new(), Vec::new(), 0);
    for i in 0..sheet.len() {
        std::mem::swap(&mut key, &mut before);
        key.clear();
        key.extend(columns.iter_mut().map(|cells| cells.next().unwrap_or_default()));
        // Rows of one series stand behind each other in most tables.
        if let (true, Some((_, rows))) = (key == before, groups.get_mut(last)) {
            rows.push(i);
            continue;
        }
        if let Some((empty, _)) = ids.iter().zip(&key).find(|(_, cell)| cell.is_empty()) {
            let column = sheet.names.get(*empty).cloned().unwrap_or_default();
            return Err(DataError::Read(ReadError::NoSeriesId { at: sheet.place(i), column }));
        }
        let id = key.iter().map(|cell: &Cell<'_>| cell.text()).collect::<Vec<_>>().join("/");
        last = *places.entry(id).or_insert_with_key(|id| {
            groups.push((Some(id.clone()), Vec::new()));
            groups.len() - 1
        });
        if let Some(most) = most.filter(|most| groups.len() > most.series) {
            return Err(LimitError::Series { file: sheet.file.clone(), most: most.series }.into());
        }
        if let Some((_, rows)) = groups.get_mut(last) {
            rows.push(i);
        }
    }
    Ok(groups)
}

/// Puts the rows of series in order, and counts what that took.
struct Rows<'a> {
    sheet: &'a Sheet,
    purpose: Purpose,
    source: Option<&'a DateSource>,
    steps: Option<&'a Steps>,
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
        let Some(source) = self.source else { return Ok((self.by_step(rows), None)) };
        let date = |row: &usize| source.dates.values.get(*row).copied().unwrap_or_default();
        let given: Vec<NaiveDateTime> = rows.iter().map(date).collect();
        if given.is_sorted_by(|a, b| a < b) {
            return Ok((rows, Some(given)));
        }
        if let Some((moved, changes)) = clock_changes(&given) {
            self.changes += changes;
            return Ok((rows, Some(moved)));
        }
        self.sorted += usize::from(!given.is_sorted());
        let mut dated: Vec<(NaiveDateTime, usize)> = given.into_iter().zip(rows).collect();
        dated.sort_by_key(|(date, _)| *date);
        let (dates, rows) = self.without_repeats(dated)?.into_iter().unzip();
        Ok((rows, Some(dates)))
    }

    /// The rows in the order of their steps, each once.
    fn by_step(&mut self, mut rows: Vec<usize>) -> Vec<usize> {
        let Some(steps) = self.steps else { return rows };
        let step = |row: &usize| steps.values.get(*row).copied();
        if !rows.is_sorted_by_key(step) {
            self.sorted += 1;
            rows.sort_by_key(step);
        }
        let all = rows.len();
        rows.dedup_by_key(|row| step(row));
        self.dropped += all - rows.len();
        rows
    }

    /// Leaves out rows that are equal to the one before in every cell.
    fn without_repeats(
        &mut self,
        dated: Vec<(NaiveDateTime, usize)>,
    ) -> Result<Vec<(NaiveDateTime, usize)>, DataError> {
        let mut kept: Vec<(NaiveDateTime, usize)> = Vec::with_capacity(dated.len());
        for (date, row) in dated {
            match kept.last() {
                Some(&(before, first)) if before == date => {
                    if self.sheet.whole(first) != self.sheet.whole(row) {
                        let (at, before) = (self.sheet.place(row), self.sheet.place(first).line);
                        let advice = self.purpose.repeated_date();
                        return Err(DataError::Series(SeriesError::DuplicateDate {
                            at,
                            before,
                            date,
                            advice,
                        }));
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
            let by = if self.source.is_some() { "date" } else { "their count" };
            notes.push(format!("rows sorted by {by}"));
        }
        if self.dropped > 0 {
            notes.push(format!("{} left out, equal to another in every cell", count(self.dropped, "row")));
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
