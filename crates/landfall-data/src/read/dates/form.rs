//! Reads the cells of a column as dates, all in one form.

use crate::cells::cell::Cell;
use crate::dates::digits::digits;
use crate::dates::form::{DateForm, Fraction, Stamp, plausible};
use crate::dates::frequency::Spacing;
use crate::dates::infer::{FALLBACKS, patterns};
use crate::read::dates::words::Word;
use chrono::{NaiveDateTime, TimeDelta};

/// A column of dates.
#[derive(Debug, Clone)]
pub(crate) struct DateColumn {
    /// How they are written.
    pub(crate) form: DateForm,
    /// One for each row, on the clock that is `offset` seconds ahead of UTC.
    pub(crate) values: Vec<NaiveDateTime>,
    /// The last offset in the column; 0 where there is none.
    pub(crate) offset: i32,
    /// What a person has to know of how they were read.
    pub(crate) note: Option<String>,
}

/// Why cells are no dates of one form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NotDates {
    /// The cell of this row is not in the form of those before it; `dates` cells are.
    Cell { row: usize, dates: usize },
    /// Two forms read every cell, and the spacing of the dates does not decide.
    Ambiguous { first: String, second: String },
    /// Two-digit years that leave out none long enough to be the time between the last and the first.
    Century { first: i32, last: i32 },
}

/// Finds the form of all cells and reads them.
///
/// The cell with the most characters says what forms there may be: it has the time, or the longest month. Forms that
/// do not read every cell drop out; of forms that differ in leading zeros the one that writes every cell as it stands is
/// taken. Where day and month could be either, the order that gives an even spacing is taken. `named` is a word of the
/// column's name that says what digits are: weeks, or days of a year.
/// Whole numbers may be written as floats.
pub(crate) fn find<'a>(
    cells: impl Iterator<Item = Cell<'a>> + Clone,
    named: Option<Word>,
) -> Result<DateColumn, NotDates> {
    let failed = match find_written(cells.clone(), named) {
        Err(failed @ NotDates::Cell { dates: 0, .. }) => failed,
        found => return found,
    };
    let Some((whole, decimals)) = floats(cells.clone()) else { return Err(failed) };
    let found = find_written(whole.iter().map(|text| Cell::Text(text)), named)?;
    // A year is one, whatever wrote it.
    let decimals = if found.form.pattern() == "%Y" { 0 } else { decimals };
    read(&found.form.with_decimals(decimals), cells)
}

/// The whole numbers of a column of floats, and the most digits that they have after the point.
fn floats<'a>(cells: impl Iterator<Item = Cell<'a>>) -> Option<(Vec<String>, usize)> {
    let mut decimals = 0;
    let one = |cell: Cell<'_>| {
        let text = cell.text();
        let (whole, fraction) = digits(&text)?;
        decimals = decimals.max(fraction.len());
        Some(whole.into_owned())
    };
    let whole: Option<Vec<String>> = cells.map(one).collect();
    Some((whole?, decimals))
}

/// As [`find`], of cells as they are written.
fn find_written<'a>(
    cells: impl Iterator<Item = Cell<'a>> + Clone,
    named: Option<Word>,
) -> Result<DateColumn, NotDates> {
    let first = cells.clone().find(|cell| !cell.is_empty()).unwrap_or_default();
    if let Cell::Time(_) = first {
        return read_times(cells, None);
    }
    // Of equally long ones the first; longer texts are no dates.
    let short = cells.clone().map(|cell| (cell.width(), cell)).filter(|(width, _)| *width <= 40);
    let longest = short.reduce(|a, b| if b.0 > a.0 { b } else { a }).unwrap_or_default().1;
    let days = ["%Y%m", "%y%m%d", "%Y"];
    // What counts rows may look like weeks, and like days of a year.
    let counts = ["%G%V", "%y%m%d", "%d%m%Y", "%m%d%Y", "%Y%j"];
    let refused: &[&str] = match named {
        Some(Word::Week) => &days,
        Some(_) => &[],
        None if counted(cells.clone()) => &counts,
        None => &[],
    };
    let possible = |pattern: &String| !refused.contains(&pattern.as_str());
    let known = |cell: Cell<'_>| patterns(&cell.text()).into_iter().filter(possible).collect::<Vec<_>>();
    let forms = [longest, first].into_iter().map(known).find(|found| !found.is_empty()).unwrap_or_default();
    let (mut readings, mut failed) = (Vec::new(), NotDates::Cell { row: 0, dates: 0 });
    for form in forms.iter().filter_map(|pattern| DateForm::new(pattern)) {
        match read_all(&form, cells.clone()) {
            Ok((form, stamps)) if likely(&form, &stamps) => readings.push((form, stamps)),
            Ok(_) => {}
            Err(century @ NotDates::Century { .. }) => return Err(century),
            Err(at) => {
                if let (NotDates::Cell { row, .. }, NotDates::Cell { row: before, dates }) = (&at, &failed)
                    && (row > before || *dates == 0)
                {
                    failed = at;
                }
            }
        }
    }
    let fallback = |form: &DateForm| FALLBACKS.contains(&form.pattern());
    if readings.iter().any(|(form, _)| !fallback(form)) {
        readings.retain(|(form, _)| !fallback(form));
    }
    let (form, stamps) = decide(readings)?.ok_or(failed)?;
    let form = with_zeros_as_written(form, &stamps, cells);
    Ok(on_one_clock(form, stamps))
}

/// Reads all cells in a form that is known.
pub(crate) fn read<'a>(
    form: &DateForm,
    cells: impl Iterator<Item = Cell<'a>> + Clone,
) -> Result<DateColumn, NotDates> {
    if let Some(Cell::Time(_)) = cells.clone().find(|cell| !cell.is_empty()) {
        return read_times(cells, Some(form));
    }
    let (form, stamps) = read_all(form, cells)?;
    Ok(on_one_clock(form, stamps))
}

/// Reads timestamps. They are dates already; a form that is known must be one that writes them whole, and else they get the one
/// with as many digits of a second as the finest of them has.
fn read_times<'a>(
    cells: impl Iterator<Item = Cell<'a>> + Clone,
    form: Option<&DateForm>,
) -> Result<DateColumn, NotDates> {
    let time = |cell| if let Cell::Time(time) = cell { plausible(time) } else { None };
    let values = all(cells.map(time))?;
    let printed = Fraction::of(&values);
    let form = match form {
        Some(form) => form.keeps(printed).then(|| form.clone()),
        None => DateForm::new(printed.pattern()),
    };
    let form = form.ok_or(NotDates::Cell { row: 0, dates: 0 })?;
    Ok(DateColumn { form, values, offset: 0, note: None })
}

/// All dates, and the form with the century of its years.
fn read_all<'a>(
    form: &DateForm,
    cells: impl Iterator<Item = Cell<'a>> + Clone,
) -> Result<(DateForm, Vec<Stamp>), NotDates> {
    let first = match form.has_short_year() {
        true => first_year(cells.clone().filter_map(|cell| form.short_year(cell)))?,
        false => None,
    };
    let form = match first {
        Some(first) => form.clone().since_year(first),
        None => form.clone(),
    };
    let stamps = all(cells.map(|cell| form.read_cell(cell)))?;
    Ok((form, stamps))
}

/// The first of two-digit years, in its century: the years are in a row, which begins after the longest stretch of the hundred
/// that has none of them. The last one is of this century if it is below 60. None for no years.
fn first_year(years: impl Iterator<Item = i32>) -> Result<Option<i32>, NotDates> {
    let mut there = [false; 100];
    for year in years {
        if let Some(one) = usize::try_from(year).ok().and_then(|year| there.get_mut(year)) {
            *one = true;
        }
    }
    let sorted: Vec<i32> = (0_i32..).zip(there).filter_map(|(year, there)| there.then_some(year)).collect();
    let next = sorted.iter().cycle().skip(1);
    let mut gaps: Vec<(i32, i32, i32)> = sorted
        .iter()
        .zip(next)
        .map(|(last, first)| ((first - last - 1).rem_euclid(100), *first, *last))
        .collect();
    gaps.sort_unstable();
    let Some(&(gap, first, last)) = gaps.last() else { return Ok(None) };
    if gaps.iter().rev().nth(1).is_some_and(|(other, ..)| *other == gap) {
        return Err(NotDates::Century { first, last });
    }
    let end = if last < 60 { 2000 + last } else { 1900 + last };
    Ok(Some(end - (last - first).rem_euclid(100)))
}

/// Whether digits that may be something else are dates of our time.
fn likely(form: &DateForm, stamps: &[Stamp]) -> bool {
    let near = |stamp: &Stamp| (1900..2100).contains(&chrono::Datelike::year(&stamp.local));
    !["%Y%m%d%H", "%d%m%Y", "%m%d%Y", "%Y%j", "%G%V"].contains(&form.pattern()) || stamps.iter().all(near)
}

/// All dates, or the row of the first cell that is none.
fn all<T>(read: impl Iterator<Item = Option<T>> + Clone) -> Result<Vec<T>, NotDates> {
    let dates: Option<Vec<T>> = read.clone().collect();
    dates.ok_or_else(|| {
        let row = read.clone().take_while(Option::is_some).count();
        NotDates::Cell { row, dates: read.flatten().count() }
    })
}

/// Whether cells are whole numbers that go on by one.
fn counted<'a>(cells: impl Iterator<Item = Cell<'a>> + Clone) -> bool {
    let number = |cell: Cell<'_>| cell.text().parse::<i64>().ok();
    let step = |pair: (Option<i64>, Option<i64>)| pair.1?.checked_sub(pair.0?);
    let mut steps = cells.clone().map(number).zip(cells.skip(1).map(number)).map(step);
    steps.next() == Some(Some(1)) && steps.all(|step| step == Some(1))
}

/// Of forms that read every cell the one whose dates are evenly spaced.
fn decide(mut readings: Vec<(DateForm, Vec<Stamp>)>) -> Result<Option<(DateForm, Vec<Stamp>)>, NotDates> {
    // Forms that give the same dates are one form.
    let mut given: Vec<Vec<Stamp>> = Vec::new();
    readings.retain(|(_, stamps)| {
        let other = !given.contains(stamps);
        given.push(stamps.clone());
        other
    });
    if readings.len() < 2 {
        return Ok(readings.pop());
    }
    let even = |(_, stamps): &(DateForm, Vec<Stamp>)| {
        let mut dates: Vec<NaiveDateTime> = stamps.iter().map(|stamp| stamp.local).collect();
        dates.sort_unstable();
        dates.dedup();
        let spacing = Spacing::of(&dates);
        dates.len() > 2 && spacing.gaps.is_empty() && spacing.uneven.is_none()
    };
    let ambiguous = |readings: &[(DateForm, Vec<Stamp>)]| {
        let name =
            |at: usize| readings.get(at).map_or_else(String::new, |(form, _)| form.pattern().to_owned());
        NotDates::Ambiguous { first: name(0), second: name(1) }
    };
    let error = ambiguous(&readings);
    readings.retain(even);
    match readings.len() {
        1 => Ok(readings.pop()),
        0 => Err(error),
        _ => Err(ambiguous(&readings)),
    }
}

/// The form with or without leading zeros, as the cells are written; with them where no cell tells.
fn with_zeros_as_written<'a>(
    form: DateForm,
    stamps: &[Stamp],
    cells: impl Iterator<Item = Cell<'a>>,
) -> DateForm {
    let variants = [(true, false), (false, true), (true, true)];
    let others = variants.iter().filter_map(|&(days, hours)| form.unpadded(days, hours));
    let mut exact: Vec<DateForm> = std::iter::once(form.clone()).chain(others).collect();
    let longest = |form: &DateForm, stamp: &Stamp| form.write(stamp.local, stamp.offset.unwrap_or(0));
    for (stamp, cell) in stamps.iter().zip(cells) {
        if exact.len() < 2 {
            break;
        }
        let cell = cell.text();
        let kept: Vec<bool> =
            exact.iter().map(|f| longest(f, stamp).is_some_and(|text| text.starts_with(&*cell))).collect();
        // A cell that no variant writes, such as one in other letters, tells nothing.
        if kept.contains(&true) {
            let mut kept = kept.into_iter();
            exact.retain(|_| kept.next() == Some(true));
        }
    }
    exact.into_iter().next().unwrap_or(form)
}

/// Puts dates with offsets from UTC on one clock: the wall's where its dates are evenly spaced, as those of days are,
/// else that of the last offset.
fn on_one_clock(form: DateForm, stamps: Vec<Stamp>) -> DateColumn {
    let offsets = || stamps.iter().map(|stamp| stamp.offset.unwrap_or(0));
    let last = stamps.last().and_then(|stamp| stamp.offset).unwrap_or(0);
    let column = |values, note| DateColumn { form: form.clone(), values, offset: last, note };
    if !form.has_offset() || offsets().all(|offset| offset == last) {
        // In the memory of the stamps.
        return column(stamps.into_iter().map(|stamp| stamp.local).collect(), None);
    }
    let local: Vec<NaiveDateTime> = stamps.iter().map(|stamp| stamp.local).collect();
    let moved = stamps.iter().map(|stamp| {
        let ahead = TimeDelta::seconds(i64::from(last - stamp.offset.unwrap_or(0)));
        stamp.local.checked_add_signed(ahead).unwrap_or(stamp.local)
    });
    let moved: Vec<NaiveDateTime> = moved.collect();
    let uneven = |dates: &[NaiveDateTime]| {
        let spacing = Spacing::of(dates);
        (spacing.uneven.is_some(), spacing.missing())
    };
    if uneven(&local) < uneven(&moved) {
        return column(
            local,
            Some("dates have several offsets from UTC: their clock's own time is counted".to_owned()),
        );
    }
    let at = form.write(moved.last().copied().unwrap_or_default(), last).unwrap_or_default();
    column(
        moved,
        Some(format!("dates have several offsets from UTC: all are put on the clock of the last one, {at}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_texts(texts: &[&str]) -> Result<DateColumn, NotDates> {
        find(texts.iter().map(|text| Cell::Text(text)), None)
    }

    fn round_trip(texts: &[&str]) -> String {
        let found = find_texts(texts).expect("dates");
        let written = |date: &NaiveDateTime| found.form.write(*date, found.offset).expect("written");
        assert_eq!(found.values.iter().map(written).collect::<Vec<_>>(), texts);
        found.form.pattern().to_owned()
    }

    #[test]
    fn every_form_is_written_as_it_was_read() {
        for text in [
            "2016-07-01 00:00:00",
            "2016-07-01T00:00:00",
            "2016-07-01T23:59:59.250Z",
            "2016-07-01 00:00:00+00:00",
            "2016-07-01 00:00",
            "2016-07-01",
            "2016/7/1 0:00",
            "01.07.2016 00:00",
            "1.7.2016",
            "2016.07.01",
            "1991 Jul",
            "Jan 1 2000",
            "Jan-1-1995",
            "1970 Q1",
        ] {
            round_trip(&[text]);
        }
        // The first row does not tell whether one-digit parts are padded; a later one does.
        assert_eq!(round_trip(&["2016/12/31 23:00", "2017/1/1 0:00"]), "%Y/%-m/%-d %-H:%M");
        assert_eq!(round_trip(&["2016/12/31 23:00", "2017/01/01 1:00"]), "%Y/%m/%d %-H:%M");
        assert_eq!(round_trip(&["May 1, 2016", "September 30, 2016"]), "%B %-d, %Y");
    }

    #[test]
    fn the_finest_row_decides_the_form() {
        let found = find_texts(&["2016-07-01", "2016-07-01 01:00:00"]).expect("dates");
        assert_eq!(found.form.write(found.values[0], 0).as_deref(), Some("2016-07-01 00:00:00"));
    }

    #[test]
    fn a_cell_above_twelve_or_an_even_spacing_tells_the_day() {
        let pattern = |texts: &[&str]| find_texts(texts).map(|found| found.form.pattern().to_owned());
        assert_eq!(pattern(&["01/02/2020", "02/13/2020"]), Ok("%m/%d/%Y".to_owned()));
        assert_eq!(pattern(&["01/02/2020", "13/02/2020"]), Ok("%d/%m/%Y".to_owned()));
        assert_eq!(pattern(&["30/11/2020", "01/12/2020", "02/12/2020"]).as_deref(), Ok("%d/%m/%Y"));
        // The first of three months, or three days of January.
        assert!(matches!(
            pattern(&["01/01/2020", "01/02/2020", "01/03/2020"]),
            Err(NotDates::Ambiguous { .. })
        ));
        // Quarters, where the other order is uneven.
        assert_eq!(
            pattern(&["01/01/2020", "01/04/2020", "01/07/2020", "01/10/2020", "01/01/2021"]),
            Ok("%d/%m/%Y".to_owned())
        );
        assert_eq!(pattern(&["31-01-95", "28-02-95"]), Ok("%d-%m-%y".to_owned()));
    }

    #[test]
    fn one_column_has_one_form() {
        let failed = |texts: &[&str]| find_texts(texts).expect_err("two forms");
        assert_eq!(failed(&["2016-07-01", "2016/07/02"]), NotDates::Cell { row: 1, dates: 1 });
        assert_eq!(failed(&["2016-07-01", "2016-07-32", "2016-07-03"]), NotDates::Cell { row: 1, dates: 2 });
        assert_eq!(failed(&["x", "y"]), NotDates::Cell { row: 0, dates: 0 });
    }

    #[test]
    fn offsets_are_put_on_one_clock() {
        let hourly = ["2020-10-25T01:00:00+02:00", "2020-10-25T02:00:00+02:00", "2020-10-25T02:00:00+01:00"];
        let found = find_texts(&hourly).expect("dates");
        assert_eq!(found.offset, 3600);
        assert_eq!(
            found.values.windows(2).map(|p| (p[1] - p[0]).num_minutes()).collect::<Vec<_>>(),
            [60, 60]
        );
        assert_eq!(found.form.write(found.values[2], found.offset).as_deref(), Some(hourly[2]));
        let daily = ["2020-10-24T00:00:00+02:00", "2020-10-25T00:00:00+02:00", "2020-10-26T00:00:00+01:00"];
        let found = find_texts(&daily).expect("dates");
        assert_eq!(found.values.windows(2).map(|p| (p[1] - p[0]).num_hours()).collect::<Vec<_>>(), [24, 24]);
        assert!(found.note.is_some());
    }

    #[test]
    fn two_digit_years_are_in_a_row() {
        let years = |texts: &[&str]| {
            let found = find_texts(texts).expect("dates");
            found.values.iter().map(chrono::Datelike::year).collect::<Vec<_>>()
        };
        assert_eq!(years(&["Jan-66", "Dec-69", "Jan-70"]), [1966, 1969, 1970]);
        assert_eq!(years(&["31.12.79", "31.01.58", "28.02.58"]), [1979, 1958, 1958]);
        assert_eq!(years(&["31.12.98", "31.01.99", "28.02.00"]), [1998, 1999, 2000]);
        assert_eq!(
            years(&["Dec-49", "Jan-50", "Jan-70", "Jan-90", "Jan-10"]),
            [1949, 1950, 1970, 1990, 2010]
        );
        assert_eq!(years(&["Jan-20", "Jan-21"]), [2020, 2021]);
        assert_eq!(years(&["Jan-68", "Jan-69"]), [1968, 1969]);
        // The day of the week holds in one century alone.
        assert_eq!(years(&["Sat 1-Jan-66", "Thu 1-Jan-70"]), [1966, 1970]);
        assert_eq!(
            find_texts(&["Jan-16", "Jan-66"]).expect_err("either"),
            NotDates::Century { first: 66, last: 16 }
        );
    }

    #[test]
    fn digits_are_dates_of_the_form_that_reads_all_of_them() {
        let pattern = |texts: &[&str]| find_texts(texts).map(|found| found.form.pattern().to_owned());
        assert_eq!(pattern(&["2022010400", "2022013100", "2022020123"]).as_deref(), Ok("%Y%m%d%H"));
        assert_eq!(pattern(&["1616976024", "1616976084"]).as_deref(), Ok("unix-s"));
        assert_eq!(pattern(&["31122020", "01012021"]).as_deref(), Ok("%d%m%Y"));
        assert_eq!(pattern(&["202052", "202053", "202101"]).as_deref(), Ok("%G%V"));
        assert_eq!(pattern(&["2020365", "2020366", "2021001"]).as_deref(), Ok("%Y%j"));
        assert_eq!(pattern(&["200130", "200131", "200201"]).as_deref(), Ok("%y%m%d"));
        assert_eq!(
            find(["2001", "2002"].map(Cell::Text).into_iter(), Some(Word::Week)).map(|_| ()),
            Err(NotDates::Cell { row: 0, dates: 0 })
        );
        for (texts, form) in [
            (&["1616976024.0", "1616976084.0"][..], "unix-s.0"),
            (&["1616976024.25", "1616976024.5"], "unix-s.00"),
            (&["1616976024000.0", "1616976084000.0"], "unix-ms.0"),
            (&["20211201.0", "20211202.0"], "%Y%m%d.0"),
            (&["202112.0", "202201.0"], "%Y%m.0"),
            (&["1999.0", "2000.0"], "%Y"),
        ] {
            assert_eq!(pattern(texts).as_deref(), Ok(form));
            if form != "%Y" && form != "unix-s.00" {
                round_trip(texts);
            }
        }
        assert_eq!(pattern(&["1.616976024e+18", "1.616976084e+18"]).as_deref(), Ok("unix-ns"));
    }
}
