//! What simulated series are like.

use landfall_data::generated::{Kind, Part, Parts, Simulator, Source, table};

const ROWS: usize = 512;

fn rows(simulator: &Simulator, count: usize, threads: usize) -> Vec<f32> {
    let mut all = vec![0.0; count * ROWS];
    simulator.fill(0, ROWS, threads, &mut all);
    all
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// The series that differ between two simulators, and their number of all.
fn differing(a: &Simulator, b: &Simulator, count: usize) -> Vec<u64> {
    let (a, b) = (rows(a, count, 2), rows(b, count, 2));
    let pairs = a.chunks(ROWS).zip(b.chunks(ROWS)).enumerate();
    pairs.filter(|(_, (a, b))| bits(a) != bits(b)).map(|(number, _)| number as u64).collect()
}

/// Correlation of a series with itself `lag` rows later.
fn autocorrelation(values: &[f32], lag: usize) -> f64 {
    let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / values.len() as f64;
    let from_mean: Vec<f64> = values.iter().map(|x| f64::from(*x) - mean).collect();
    let square: f64 = from_mean.iter().map(|x| x * x).sum();
    from_mean.iter().zip(&from_mean[lag..]).map(|(a, b)| a * b).sum::<f64>() / square
}

#[test]
fn threads_and_order_change_nothing() {
    let simulator = Simulator::new(3);
    let one = rows(&simulator, 50, 1);
    for threads in [0, 2, 7, 64] {
        assert_eq!(bits(&one), bits(&rows(&simulator, 50, threads)), "{threads} threads");
    }
    let mut last = vec![0.0; ROWS];
    simulator.series(49, &mut last);
    assert_eq!(bits(&one[49 * ROWS..]), bits(&last));
}

#[test]
fn values_stay_what_they_are() {
    let mut all = vec![0.0; 1000 * 300];
    Simulator::new(1).fill(0, 300, 2, &mut all);
    // FNV-1a of the bits; all missing values have the same.
    let hash = all.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, x| {
        let bits = if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        (hash ^ u64::from(bits)).wrapping_mul(0x100_0000_01b3)
    });
    let (path, found) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/simulated.hash"), format!("{hash:016x}\n"));
    if std::env::var_os("LANDFALL_BLESS").is_some() {
        std::fs::write(path, &found).expect("written");
    }
    let known = std::fs::read_to_string(path).expect("LANDFALL_BLESS=1 writes it");
    assert_eq!(
        found, known,
        "another simulation: say so in the changelog, and write it with LANDFALL_BLESS=1"
    );
}

#[test]
fn seeds_and_numbers_share_no_series() {
    // The scale is drawn for each series, so equal shapes show only without it.
    let plain =
        |seed| Simulator::new(seed).with_parts(Parts::ALL.without(Part::Units).without(Part::Missing));
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..8 {
        for (number, row) in rows(&plain(seed), 60, 2).chunks(ROWS).enumerate() {
            if row.iter().any(|x| *x != row[0]) {
                let before = seen.insert(bits(row), (seed, number));
                assert_eq!(before, None, "series {number} of seed {seed}");
            }
        }
    }
}

#[test]
fn values_are_finite_or_missing() {
    let all = rows(&Simulator::new(11), 3000, 2);
    let (mut constant, mut missing, mut most) = (0, 0, 0);
    for (number, row) in all.chunks(ROWS).enumerate() {
        assert!(row.iter().all(|x| x.is_nan() || x.is_finite()), "series {number}");
        assert!(row[ROWS - 8..].iter().any(|x| x.is_finite()), "series {number} ends unknown");
        let known: Vec<f32> = row.iter().copied().filter(|x| x.is_finite()).collect();
        constant += usize::from(known.iter().all(|x| *x == known[0]));
        missing += usize::from(known.len() < ROWS);
        most = most.max(ROWS - known.len());
    }
    assert!((1..45).contains(&constant), "{constant} of 3000 are constant");
    assert!((300..600).contains(&missing), "{missing} of 3000 have missing values");
    assert!((50..400).contains(&most), "{most} of {ROWS} values are missing at most");
}

#[test]
fn the_mix_is_that_of_the_weights_and_of_the_document() {
    let simulator = Simulator::new(1);
    let all: Vec<(Kind, Source)> = (0..20_000).map(|number| simulator.describe(number)).collect();
    let share = |is: &dyn Fn(&(Kind, Source)) -> bool| {
        all.iter().filter(|found| is(found)).count() as f64 / all.len() as f64
    };
    let document = include_str!("../../../docs/simulator.md");
    for kind in Kind::ALL {
        let (found, weight) = (share(&|(k, _)| *k == kind), kind.weight());
        assert!((found - weight).abs() < 0.01, "{kind:?}: {found}, not {weight}");
        let line = format!("| `{kind:?}` | {:.0} % |", 100.0 * weight);
        assert!(document.contains(&line), "docs/simulator.md lacks {line}");
    }
    for source in [Source::Structure, Source::Arima, Source::Process, Source::Counts, Source::Map] {
        let (found, weight) = (share(&|(_, s)| *s == source), source.weight());
        assert!((found - weight).abs() < 0.01, "{source:?}: {found}, not {weight}");
        let line = format!("| `{source:?}` | {:.0} % |", 100.0 * weight);
        assert!(document.contains(&line), "docs/simulator.md lacks {line}");
    }
    let lacking: Vec<&str> =
        Part::ALL.map(Part::name).into_iter().filter(|n| !document.contains(&format!("`{n}`"))).collect();
    assert!(lacking.is_empty(), "docs/simulator.md lacks {lacking:?}");
}

#[test]
fn a_part_that_is_left_out_changes_what_it_makes_alone() {
    let all = Simulator::new(9);
    let without = |part| all.clone().with_parts(Parts::ALL.without(part));
    for (part, source) in [
        (Part::Counts, Source::Counts),
        (Part::Arima, Source::Arima),
        (Part::Processes, Source::Process),
        (Part::Maps, Source::Map),
    ] {
        let expected: Vec<u64> = (0..400).filter(|number| all.describe(*number).1 == source).collect();
        assert_eq!(differing(&all, &without(part), 400), expected, "{part:?}");
    }
    for (part, share) in
        [(Part::Missing, 40..85), (Part::Outliers, 30..85), (Part::Shifts, 15..70), (Part::Bounds, 25..80)]
    {
        let found = differing(&all, &without(part), 400).len();
        assert!(share.contains(&found), "without {part:?} {found} of 400 series change");
    }
    let (known, complete) = (rows(&all, 400, 2), rows(&without(Part::Missing), 400, 2));
    assert!(complete.iter().all(|x| x.is_finite()));
    assert!(known.iter().zip(&complete).all(|(a, b)| a.is_nan() || a == b));
}

#[test]
fn seasons_have_the_period_of_their_kind() {
    for (kind, period, at_least) in
        [(Kind::Quarterly, 4, 0.6), (Kind::Monthly, 12, 0.6), (Kind::Hourly, 168, 0.4)]
    {
        let simulator = Simulator::new(2).with_parts(Parts::NONE.with(Part::Seasons)).with_kind(kind);
        let (mut seasonal, mut steady) = (0, 0);
        for row in rows(&simulator, 300, 2).chunks(ROWS).filter(|row| row.iter().any(|x| *x != row[0])) {
            // What a series of no change but its season would reach over so many rows.
            let full = 1.0 - period as f64 / ROWS as f64;
            seasonal += 1;
            steady += usize::from(autocorrelation(row, period) > 0.85 * full);
        }
        assert!(seasonal > 200, "{kind:?}: {seasonal} of 300 are seasonal");
        assert!(
            f64::from(steady as u32) > at_least * f64::from(seasonal),
            "{kind:?}: {steady} of {seasonal}"
        );
    }
}

#[test]
fn counts_are_whole_and_often_zero() {
    let simulator = Simulator::new(4).with_parts(Parts::NONE.with(Part::Counts));
    let (mut whole, mut sparse, mut all) = (0, 0, 0);
    for number in (0..4000).filter(|number| simulator.describe(*number).1 == Source::Counts) {
        let mut row = vec![0.0; ROWS];
        simulator.series(number, &mut row);
        assert!(row.iter().all(|x| *x >= 0.0), "series {number}");
        let zeros = row.iter().filter(|x| **x == 0.0).count();
        all += 1;
        whole += usize::from(row.iter().all(|x| x.fract() == 0.0));
        sparse += usize::from((ROWS * 3 / 10..ROWS).contains(&zeros));
    }
    assert!(all > 200 && whole * 10 > all * 9, "{whole} of {all} are whole");
    assert!((all * 3 / 10..all * 8 / 10).contains(&sparse), "{sparse} of {all} have many zeros");
}

#[test]
fn short_windows_have_trends_of_all_strengths() {
    let simulator = Simulator::new(6).with_kind(Kind::Yearly).with_parts(Parts::ALL.without(Part::Missing));
    // Mean step beside the spread of steps, over 30 rows: 0 is a walk, 1 nearly a line.
    let mut strengths: Vec<f64> = rows(&simulator, 600, 2)
        .chunks(ROWS)
        .map(|row| {
            row[ROWS - 30..].windows(2).map(|w| f64::from(w[1]) - f64::from(w[0])).collect::<Vec<f64>>()
        })
        .map(|steps| {
            let mean = steps.iter().sum::<f64>() / 29.0;
            let spread = (steps.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 29.0).sqrt();
            mean.abs() / (spread + 1e-30)
        })
        .collect();
    strengths.sort_by(f64::total_cmp);
    println!("{:?}", [60, 150, 300, 450, 540].map(|at| strengths[at]));
    assert!(
        strengths[150] < 0.2 && strengths[300] > 0.15 && strengths[540] > 1.2,
        "{} to {}",
        strengths[150],
        strengths[540]
    );
}

#[test]
fn nothing_is_left_without_parts() {
    let mut row = [1.0; 64];
    Simulator::new(0).with_parts(Parts::NONE).series(5, &mut row);
    assert!(row.iter().all(|x| *x == row[0]), "{row:?}");
    Simulator::new(0).series(5, &mut []);
    Simulator::new(0).fill(5, 0, 3, &mut row);
    for length in 1..12 {
        let mut rows = vec![0.0; 200 * length];
        Simulator::new(0).fill(0, length, 2, &mut rows);
        assert!(rows.chunks(length).all(|row| row.iter().any(|x| x.is_finite())), "{length} rows");
    }
}

#[test]
fn parts_are_read_by_name() {
    let read = |text: &str| text.parse::<Parts>();
    assert_eq!(read("all").expect("all"), Parts::ALL);
    assert_eq!(read("noise, trends").expect("two").to_string(), "trends,noise");
    assert_eq!(read("-missing").expect("but one"), Parts::ALL.without(Part::Missing));
    assert_eq!(read(&Parts::ALL.to_string()).expect("its own text"), Parts::ALL);
    let error = read("trend").expect_err("no part").to_string();
    assert!(error.contains("`trend`, expected one of all, trends, seasons"), "{error}");
    let error = read("-noise,trends").expect_err("mixed").to_string();
    assert!(error.contains("names with `-` alone"), "{error}");
}

#[test]
fn a_table_has_the_dates_of_its_frequency() {
    for (name, second, found) in [
        ("yearly", "2001-01-01", "yearly"),
        ("quarterly", "2000-04-01", "quarterly"),
        ("monthly", "2000-02-01", "monthly"),
        ("weekly", "2000-01-10", "weekly (Monday)"),
        ("daily", "2000-01-04", "daily"),
        ("business days", "2000-01-04", "business days"),
        ("hourly", "2000-01-03 01:00:00", "hourly"),
        ("every 15 min", "2000-01-03 00:15:00", "every 15 min"),
    ] {
        let mut text = Vec::new();
        table(&Simulator::new(1), 3, 40, name, &mut text).expect("a table");
        let text = String::from_utf8(text).expect("text");
        let line = text.lines().nth(2).expect("a row");
        assert!(line.starts_with(&format!("s0,{second},")), "{name}: {line}");
        assert_eq!(text.lines().count(), 1 + 3 * 40);
        let path = std::env::temp_dir().join(format!(
            "landfall-generated-{}-{}.csv",
            std::process::id(),
            name.replace(' ', "-")
        ));
        std::fs::write(&path, &text).expect("written");
        let panel =
            landfall_data::Panel::read(std::slice::from_ref(&path), &landfall_data::ReadOptions::default());
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(panel.expect("a panel").frequency().map(|f| f.to_string()).as_deref(), Some(found));
    }
    let error =
        table(&Simulator::new(1), 1, 2, "fortnightly", &mut Vec::new()).expect_err("none").to_string();
    assert!(error.contains("`fortnightly`, expected one of yearly, quarterly"), "{error}");
}

#[test]
fn dates_past_the_calendar_are_refused() {
    let error =
        table(&Simulator::new(1), 1, 300_000, "yearly", &mut Vec::new()).expect_err("too long").to_string();
    assert!(error.contains("leave the calendar"), "{error}");
}
