//! Local times in which a change of the clock repeats an hour.

use chrono::{NaiveDateTime, TimeDelta};

/// Makes dates of a wall clock that is put back by an hour once a year even, in place, so that they count on through the
/// hour that repeats; the last dates stay as they are. Returns how many changes there were, none for dates that go back
/// otherwise, which stay as they are.
///
/// Where the clock is put back, the step from one row to the next is an hour less than usual; where it is put forward, an
/// hour more. Dates after a change are then moved by an hour against those before it.
pub(super) fn unshift(dates: &mut [NaiveDateTime]) -> usize {
    let hour = TimeDelta::hours(1);
    let Some(step) = usual_step(dates).filter(|step| *step > TimeDelta::zero() && *step <= hour) else {
        return 0;
    };
    let mut moved = dates.to_vec();
    let (mut offset, mut changes) = (TimeDelta::zero(), 0);
    for i in 1..dates.len() {
        let found = dates[i] - dates[i - 1];
        if found == step - hour {
            offset += hour;
            changes += 1;
        } else if found == step + hour && offset >= hour {
            offset -= hour;
            changes += 1;
        } else if found <= TimeDelta::zero() {
            return 0;
        }
        moved[i] = dates[i] + offset;
    }
    // The rows that a forecast follows keep the times that the file has.
    for (date, moved) in dates.iter_mut().zip(moved) {
        *date = moved - offset;
    }
    changes
}

/// The most frequent step between rows.
fn usual_step(dates: &[NaiveDateTime]) -> Option<TimeDelta> {
    let mut counts = std::collections::BTreeMap::new();
    for pair in dates.windows(2) {
        *counts.entry(pair[1] - pair[0]).or_insert(0_usize) += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(step, _)| step)
}

#[cfg(test)]
mod tests {
    use super::super::Dates;
    use super::*;

    fn date(text: &str) -> NaiveDateTime {
        Dates::parse("date", &[text]).expect(text).values()[0]
    }

    #[test]
    fn an_hour_that_repeats_is_counted_once_each_time() {
        for minutes in [60, 30, 15] {
            // Local times of a day on which 3:00 becomes 2:00.
            let per_hour = 60 / minutes;
            let first = date("2021-10-31 00:00");
            let local = |i: i64| {
                let back = if i >= 3 * per_hour { 60 } else { 0 };
                first + TimeDelta::minutes(i * minutes - back)
            };
            let mut dates: Vec<NaiveDateTime> = (0..10 * per_hour).map(local).collect();
            let last = *dates.last().expect("rows");
            assert_eq!(unshift(&mut dates), 1);
            assert!(dates.windows(2).all(|pair| pair[1] - pair[0] == TimeDelta::minutes(minutes)));
            assert_eq!(dates.last(), Some(&last));
        }
    }

    #[test]
    fn dates_that_are_out_of_order_stay() {
        let mut dates = vec![date("2021-01-01 02:00"), date("2021-01-01 00:00"), date("2021-01-01 01:00")];
        let before = dates.clone();
        assert_eq!((unshift(&mut dates), dates), (0, before));
    }
}
