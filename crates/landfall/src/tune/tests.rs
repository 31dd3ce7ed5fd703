//! What the tuner does with candidates that are wrong, with what the cache says, and with times.

use super::*;

fn times(of: &[&[u64]]) -> Vec<Vec<Duration>> {
    of.iter().map(|t| t.iter().map(|&us| Duration::from_micros(us)).collect()).collect()
}

#[test]
fn only_what_is_clearly_faster_is_chosen() {
    let own: &[u64] = &[100, 101, 102, 103, 104, 105, 106, 107, 108];
    let clear: &[u64] = &[80, 81, 82, 83, 84, 85, 86, 87, 300];
    assert_eq!(faster(&times(&[own, clear])), 1);
    // A better median, in a spread as wide as the gain.
    let noisy: &[u64] = &[60, 62, 65, 70, 90, 110, 120, 130, 140];
    assert_eq!(faster(&times(&[own, noisy])), 0);
    // Steady, and not by enough.
    let close: &[u64] = &[99, 99, 99, 99, 99, 99, 99, 99, 99];
    assert_eq!(faster(&times(&[&[101; 9], close])), 0);
    assert_eq!(faster(&times(&[own, own])), 0);
    assert_eq!(faster(&times(&[own])), 0);
    // Of several the fastest.
    assert_eq!(faster(&times(&[own, clear, &[50; 9], noisy])), 2);
}

#[test]
fn quartiles_are_of_the_sorted_times() {
    let of = quartiles(&times(&[&[9, 1, 8, 2, 7, 3, 6, 4, 5]])[0]);
    assert_eq!(of.map(|d| d.as_micros()), [3, 5, 7]);
}
