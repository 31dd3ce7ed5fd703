//! Changes of the clock in dates without an offset: an hour that is there twice in autumn, and none in spring.

use chrono::{Datelike, NaiveDateTime, TimeDelta, Timelike};

/// Dates in the order of their rows, put on the clock of the last row, where what repeats or is skipped is the hour of
/// a change of the clock; with the number of changes. `None` where dates go back otherwise, or never do.
///
/// A change is believed where the clock goes back by one hour, in one of the months and hours in which clocks change, at
/// most once in 300 days. A skipped hour counts as a change only beside such a repeated one.
pub(crate) fn changes(dates: &[NaiveDateTime]) -> Option<(Vec<NaiveDateTime>, usize)> {
    let hour = TimeDelta::hours(1);
    let steps = || dates.windows(2).filter_map(|pair| <[NaiveDateTime; 2]>::try_from(pair).ok());
    let step = steps().map(|[a, b]| b - a).filter(|step| *step > TimeDelta::zero()).min()?;
    if step > hour {
        return None;
    }
    let season = |date: NaiveDateTime| [3, 4, 9, 10, 11].contains(&date.month()) && date.hour() <= 4;
    let (mut shifts, mut shift, mut last_back): (Vec<i32>, i32, Option<NaiveDateTime>) = (vec![0], 0, None);
    for [before, date] in steps() {
        if date <= before {
            let rare = last_back.is_none_or(|last| date - last > TimeDelta::days(300));
            if date - before != step - hour || !season(date) || !rare {
                return None;
            }
            last_back = Some(date);
            shift += 1;
        } else if date - before == step + hour && season(date) {
            shift -= 1;
        }
        shifts.push(shift);
    }
    last_back?;
    let count = shifts.windows(2).filter(|pair| pair.first() != pair.last()).count();
    let moved = dates.iter().zip(&shifts).map(|(date, own)| *date + hour * (own - shift)).collect();
    Some((moved, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::NaiveDate;

    fn at(month: u32, day: u32, hour: u32, minute: u32) -> NaiveDateTime {
        NaiveDate::from_ymd_opt(2020, month, day)
            .and_then(|d| d.and_hms_opt(hour, minute, 0))
            .expect("a date")
    }

    #[test]
    fn the_hour_of_a_change_is_there_twice() {
        let dates: Vec<_> = [(0, 30), (1, 0), (1, 30), (2, 0), (2, 30), (2, 0), (2, 30), (3, 0)]
            .map(|(h, m)| at(10, 25, h, m))
            .into();
        let (moved, count) = changes(&dates).expect("a change");
        assert_eq!((moved.last(), count), (dates.last(), 1));
        assert!(moved.windows(2).all(|pair| pair[1] - pair[0] == TimeDelta::minutes(30)), "{moved:?}");
        // From spring to autumn of a year.
        let year = [at(3, 29, 0, 0), at(3, 29, 1, 0), at(3, 29, 3, 0)].into_iter();
        let hours = (1..6000).map(|h| at(3, 29, 3, 0) + TimeDelta::hours(h));
        let year: Vec<_> = year
            .chain(hours)
            .take_while(|d| *d <= at(10, 25, 2, 0))
            .chain([at(10, 25, 2, 0), at(10, 25, 3, 0)])
            .collect();
        let (moved, count) = changes(&year).expect("two changes");
        assert_eq!(count, 2);
        assert!(moved.windows(2).all(|pair| pair[1] - pair[0] == TimeDelta::hours(1)));
    }

    #[test]
    fn other_repeats_are_none() {
        for dates in [
            vec![at(7, 1, 1, 0), at(7, 1, 2, 0), at(7, 1, 2, 0), at(7, 1, 3, 0)],
            vec![at(10, 25, 13, 0), at(10, 25, 14, 0), at(10, 25, 14, 0)],
            vec![at(10, 25, 1, 0), at(10, 25, 2, 0), at(10, 25, 3, 0)],
            vec![at(10, 25, 1, 0), at(10, 25, 2, 0), at(10, 25, 2, 0), at(10, 26, 2, 0), at(10, 26, 2, 0)],
        ] {
            assert_eq!(changes(&dates), None, "{dates:?}");
        }
    }
}
