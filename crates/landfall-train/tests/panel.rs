//! Panels: files, series-id columns, targets, and windows that never cross from one series into another.

use landfall::ops::{BatchWindows, Order};
use landfall::{DType, Engine, Error};
use landfall_train::data::{Fill, Panel, ReadOptions, Segment, Series, Split};
use landfall_train::train::Dataset;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

fn split() -> Split {
    Split::ratio(0.6, 0.2, 0.2).expect("a partition")
}

/// Series of these lengths whose values say series and row.
fn panel(rows: &[usize]) -> Panel {
    let series = |(i, rows): (usize, &usize)| {
        let values = (0..*rows).map(|row| (1000 * i + row) as f64).collect();
        Series::new(format!("s{i}"), vec!["a".to_owned()], vec![values], None).expect("a series")
    };
    Panel::new(rows.iter().enumerate().map(series).collect()).expect("one column")
}

/// Starts and series of a segment's windows as the device gives them, epoch by batch.
fn visited(
    dataset: &Dataset,
    segment: Segment,
    order: Order,
    epoch: i64,
) -> Result<Vec<(usize, usize)>, Error> {
    const BATCH: usize = 5;
    let engine = Engine::cpu_with_threads(1)?;
    let rows = dataset.stretches.iter().flat_map(|s| [s.first, s.start, s.series].map(|x| x as i64));
    let table = engine.tensor([dataset.stretches.len(), 3], &rows.collect::<Vec<i64>>())?;
    let span = dataset.span(segment);
    let mut seen = Vec::new();
    for batch in 0..span.count.div_ceil(BATCH) {
        let cursor = [0, epoch, batch as i64, 11, span.base as i64, span.count as i64, 0, 0];
        let cursor = engine.tensor([8], &cursor)?;
        let mut starts = engine.empty(DType::I64, [BATCH])?;
        let mut series = engine.empty(DType::I64, [BATCH])?;
        let mut valid = engine.empty(DType::Bool, [BATCH])?;
        let outputs = &mut [starts.view_mut(), series.view_mut(), valid.view_mut()];
        engine.call(
            &BatchWindows { batch: BATCH, micro_batches: 1, order },
            &[cursor.view(), table.view()],
            outputs,
        )?;
        let all = starts.read::<i64>()?.into_iter().zip(series.read::<i64>()?);
        let valid = valid.read_host()?.data;
        seen.extend(all.zip(valid).filter(|(_, v)| *v == 1.0).map(|((a, b), _)| (a as usize, b as usize)));
    }
    Ok(seen)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn windows_are_those_of_a_naive_listing(
        rows in prop::collection::vec(1_usize..60, 1..6), context in 1_usize..8, horizon in 1_usize..5,
        epoch in 0_i64..3,
    ) {
        let Ok((dataset, windowed)) = Dataset::forecast(panel(&rows), split(), context, horizon) else {
            return Ok(());
        };
        prop_assert_eq!(windowed.members().len() + windowed.left_out().len(), rows.len());
        for segment in Segment::ALL {
            let (mut expected, mut offset) = (Vec::new(), 0);
            for (series, m) in windowed.members().iter().enumerate() {
                let own = m.segments.rows(segment);
                for start in own.start..own.end {
                    if start + context + horizon <= own.end {
                        expected.push((offset + start, series));
                    }
                }
                offset += m.series.rows();
            }
            let counts = (0..windowed.members().len()).map(|s| expected.iter().filter(|w| w.1 == s).count());
            prop_assert_eq!(dataset.windows_of_series(segment), counts.collect::<Vec<_>>());
            let in_order = visited(&dataset, segment, Order::Sequential, 0).expect("a batch");
            prop_assert_eq!(&in_order, &expected);
            let mut shuffled = visited(&dataset, segment, Order::Shuffled, epoch).expect("a batch");
            shuffled.sort_unstable();
            prop_assert_eq!(&shuffled, &expected);
        }
    }
}

#[test]
fn each_series_is_scaled_on_its_own() {
    let (dataset, windowed) = Dataset::forecast(panel(&[40, 30]), split(), 3, 2).expect("long enough");
    let means: Vec<f64> = windowed.members().iter().map(|m| m.scaler.mean()[0]).collect();
    // The first 24 rows, and the first 18 of the second series.
    assert_eq!(means, [11.5, 1008.5]);
    assert_eq!((dataset.rows, dataset.series, dataset.channels), (70, 2, 1));
    let scaled = |m: usize, row: usize| {
        let s = &windowed.members()[m].scaler;
        ((windowed.members()[m].series.values()[0][row] - s.mean()[0]) / s.std()[0]) as f32
    };
    assert_eq!((dataset.values[39], dataset.values[40]), (scaled(0, 39), scaled(1, 0)));
}

#[test]
fn short_series_are_left_out_and_named() {
    let (dataset, windowed) = Dataset::forecast(panel(&[40, 6]), split(), 3, 2).expect("one is long enough");
    assert_eq!((dataset.series, dataset.rows), (1, 40));
    let left_out = windowed.left_out().join("\n");
    assert!(
        left_out.starts_with(
            "series `s1` (6 rows) is left out: training split has 3 rows; 5 needed (context 3 + horizon 2): "
        ),
        "{left_out}"
    );
    let error = Dataset::forecast(panel(&[6, 5]), split(), 3, 2).expect_err("none").to_string();
    assert!(
        error.starts_with(
            "none of 2 series holds a window in each segment; `s0`: training split has 3 rows; 5 needed (context 3 + \
             horizon 2): "
        ),
        "{error}"
    );
    let one = Dataset::forecast(panel(&[6]), split(), 3, 2).expect_err("none").to_string();
    assert!(one.starts_with("training split has 3 rows; 5 needed"), "{one}");
}

#[test]
fn panels_have_the_same_columns() {
    let series = |name: &str, columns: &[&str]| {
        let values = (0..columns.len()).map(|c| vec![c as f64; 3]).collect();
        Series::new(name, columns.iter().map(|&c| c.to_owned()).collect(), values, None).expect("a series")
    };
    let refused = |a, b| Panel::new(vec![a, b]).expect_err("refused").to_string();
    let rule = "give all series the same columns, or choose with columns";
    assert_eq!(
        refused(series("x.csv", &["a", "b"]), series("y.csv", &["a"])),
        format!("y.csv: no column `b`, unlike x.csv; {rule}")
    );
    assert_eq!(
        refused(series("x.csv", &["a"]), series("y.csv", &["a", "c"])),
        format!("y.csv: it has a column `c`, unlike x.csv; {rule}")
    );
    assert_eq!(
        refused(series("x.csv", &["a"]).named("n"), series("y.csv", &["a"]).named("n")),
        "x.csv and y.csv hold series of one name, `n`; rename one of them"
    );
    let panel =
        Panel::new(vec![series("x", &["a", "b"]), series("y", &["b", "a"])]).expect("the same columns");
    assert_eq!(panel.series()[1].values(), [[1.0; 3], [0.0; 3]]);
    let panel = panel.with_targets(&["b".to_owned()]).expect("a column");
    assert_eq!((panel.columns(), panel.targets()), (&["b".to_owned(), "a".to_owned()][..], 1));
    assert_eq!(panel.series()[1].values(), [[0.0; 3], [1.0; 3]]);
    let unknown = panel.with_targets(&["z".to_owned()]).expect_err("unknown").to_string();
    assert_eq!(unknown, "x: no column `z` among b, a; add it or correct its name");
}

#[test]
fn a_column_or_a_file_names_the_series() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    };
    let by_id = file("all.csv", "id,ds,y\nx,2016-07-01,1\nz,2016-07-05,7\nx,2016-07-02,2\nz,2016-07-06,8\n");
    let options = ReadOptions { series_id: Some(vec!["id".to_owned()]), ..ReadOptions::default() };
    let panel = Panel::read(&[&by_id], &options).expect("two series");
    let names: Vec<&str> = panel.series().iter().map(Series::name).collect();
    assert_eq!((names, panel.columns()), (vec!["x", "z"], &["y".to_owned()][..]));
    assert_eq!(
        (panel.series()[0].values(), panel.series()[1].values()),
        (&[vec![1.0, 2.0]][..], &[vec![7.0, 8.0]][..])
    );
    assert!(panel.series().iter().all(|s| s.dates().is_some_and(|d| d.column() == "ds")));

    let x = file("x.csv", "ds,y\n2016-07-01,1\n2016-07-02,2\n");
    let z = file("z.csv", "ds,y\n2016-07-05,7\n2016-07-06,8\n");
    let files = Panel::read(&[&x, &z], &ReadOptions::default()).expect("two series");
    for (a, b) in files.series().iter().zip(panel.series()) {
        assert_eq!((a.name(), a.values(), a.dates()), (b.name(), b.values(), b.dates()));
    }
}

#[test]
fn rows_are_inserted_where_dates_skip_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("g.csv");
    fs::write(
        &path,
        "date,a,b\n2016-07-01,1,5\n2016-07-02,2,\n2016-07-03,3,5\n2016-07-06,6,8\n2016-07-07,7,9\n",
    )
    .expect("written");
    let options = ReadOptions { fill: Some(Fill::Linear), ..ReadOptions::default() };
    let kept = Panel::read(&[&path], &options).expect("a series");
    assert_eq!((kept.rows(), kept.notices().len()), (5, 1));
    assert_eq!(
        kept.summary().notes[1..],
        [
            "dates are daily with 2 missing: 2 between 2016-07-03 00:00:00 and 2016-07-06 00:00:00; windows count rows as if \
          none were missing"
        ]
    );
    let whole = Panel::read(&[&path], &ReadOptions { fill_gaps: true, ..options }).expect("a series");
    assert_eq!(whole.series()[0].values()[0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(whole.series()[0].values()[1], [5.0, 5.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let places = "2 of them between 2016-07-03 00:00:00 and 2016-07-06 00:00:00";
    assert_eq!(
        whole.summary().notes,
        [
            format!("2 rows inserted where the dates skip them ({places}), filled by the rule linear"),
            "1 missing value filled by the rule linear: b (1)".to_owned()
        ]
    );
    // Without a word of the caller the same is done, since the gap is at most a third of the rows.
    let found = Panel::read(&[&path], &ReadOptions::default()).expect("a series");
    assert_eq!(found.series()[0].values(), whole.series()[0].values());
}
