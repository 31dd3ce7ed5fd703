//! Properties of simulated series.

use crate::generated::{Kind, Part, Parts, Simulator, Source};

const ROWS: usize = 512;

fn rows(simulator: &Simulator, count: usize, threads: usize) -> Vec<f32> {
    let mut all = vec![0.0; count * ROWS];
    simulator.fill(0, ROWS, threads, &mut all);
    all
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn threads_and_order_change_nothing() {
    let simulator = Simulator::new(3);
    let one = rows(&simulator, 50, 1);
    for threads in [2, 7, 64] {
        assert_eq!(bits(&one), bits(&rows(&simulator, 50, threads)), "{threads} threads");
    }
    let mut last = vec![0.0; ROWS];
    simulator.series(49, &mut last);
    assert_eq!(bits(&one[49 * ROWS..]), bits(&last));
    assert_ne!(bits(&one), bits(&rows(&Simulator::new(4), 50, 1)));
}

#[test]
fn values_are_finite_or_missing() {
    let simulator = Simulator::new(11);
    let all = rows(&simulator, 3000, 2);
    let (mut constant, mut missing) = (0, 0);
    for (number, row) in all.chunks(ROWS).enumerate() {
        assert!(row.iter().all(|x| x.is_nan() || x.is_finite()), "series {number}");
        assert!(row[ROWS - 8..].iter().any(|x| x.is_finite()), "series {number} ends unknown");
        let known: Vec<f32> = row.iter().copied().filter(|x| x.is_finite()).collect();
        constant += usize::from(known.iter().all(|x| *x == known[0]));
        missing += usize::from(known.len() < ROWS);
    }
    assert!(constant < 45, "{constant} of 3000 are constant");
    assert!((300..600).contains(&missing), "{missing} of 3000 have missing values");
    let complete = rows(&simulator.with_parts(Parts::ALL.without(Part::Missing)), 1000, 2);
    assert!(complete.iter().all(|x| x.is_finite()));
    let differ = all.iter().zip(&complete).filter(|(a, b)| !a.is_nan() && a.to_bits() != b.to_bits());
    assert_eq!(differ.count(), 0, "without missing values the known ones stay as they are");
}

#[test]
fn kinds_and_sources_are_as_often_as_their_weights() {
    let simulator = Simulator::new(1);
    let all: Vec<(Kind, Source)> = (0..20_000).map(|number| simulator.describe(number)).collect();
    for line in crate::generated::kinds::KINDS {
        let found = all.iter().filter(|(kind, _)| *kind == line.kind).count() as f64 / 20_000.0;
        assert!((found - line.weight).abs() < 0.01, "{:?} {found}", line.kind);
    }
    let counts = all.iter().filter(|(_, source)| *source == Source::Counts).count() as f64 / 20_000.0;
    assert!((counts - 0.07).abs() < 0.01, "{counts}");
}

#[test]
fn nothing_is_left_without_parts() {
    let mut row = [1.0; 64];
    Simulator::new(0).with_parts(Parts::NONE).series(5, &mut row);
    assert!(row.iter().all(|x| *x == row[0]), "{row:?}");
}

#[test]
fn speed() {
    let start = std::time::Instant::now();
    let mut all = vec![0.0; 400 * 1152];
    Simulator::new(2).fill(0, 1152, 1, &mut all);
    println!("{:.0} series of 1152 values a second", 400.0 / start.elapsed().as_secs_f64());
}
