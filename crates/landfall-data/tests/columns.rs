//! What is found in a file's columns, what is left out and filled, and that it is said.

use landfall_data::{Panel, ReadOptions, Series, parse, read};

fn series(text: &str) -> Series {
    parse(text.as_bytes(), "f.csv", &ReadOptions::default()).expect(text)
}

/// The panel of a file with this text.
fn panel(text: &str) -> Panel {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.csv");
    std::fs::write(&path, text).expect("written");
    Panel::read(&[path], &ReadOptions::default()).expect(text)
}

/// A header and 12 days, whose cells after the date are those of `cells`.
fn days(header: &str, cells: impl Fn(usize) -> String) -> String {
    let rows = (0..12).map(|i| format!("2020-01-{:02},{}\n", i + 1, cells(i)));
    format!("{header}\n{}", rows.collect::<String>())
}

#[test]
fn lines_before_the_header_are_left_out() {
    for text in [
        "# a comment\n# another\ndate,a,b\n2020-01-01,1,2\n2020-01-02,3,4\n",
        "#date,a,b\n2020-01-01,1,2\n2020-01-02,3,4\n",
        "Station 7\n\ndate,a,b\n2020-01-01,1,2\n2020-01-02,3,4\n",
        "date\ta\tb\n2020-01-01\t1\t2\n2020-01-02\t3\t4\n",
        "  date   a  b\n2020-01-01   1  2\n2020-01-02  3   4\n",
        "date|a|b\n2020-01-01|1|2\n2020-01-02|3|4\n",
    ] {
        let s = series(text);
        assert_eq!(
            (s.columns(), s.values()),
            (&["a", "b"].map(str::to_owned)[..], &[vec![1.0, 3.0], vec![2.0, 4.0]][..])
        );
        assert_eq!(s.dates().map(|d| d.column()), Some("date"), "{text}");
    }
    // Row names without a name, as R writes them.
    let s = series("mpg,cyl\nMazda,21,6\nDatsun,22.8,4\nHornet,21.4,6\n");
    assert_eq!(s.values(), [[21.0, 22.8, 21.4], [6.0, 4.0, 6.0]]);
}

#[test]
fn a_separator_may_be_given() {
    let options = ReadOptions { separator: Some('_'), ..ReadOptions::default() };
    assert_eq!(parse(b"a_b\n1_2\n", "f", &options).expect("two columns").values(), [[1.0], [2.0]]);
    let options = ReadOptions { separator: Some('\u{3b1}'), ..ReadOptions::default() };
    assert!(
        parse(b"a\n1\n", "f", &options)
            .expect_err("two bytes")
            .to_string()
            .starts_with("separator `\u{3b1}`")
    );
}

#[test]
fn numbers_are_read_as_the_whole_file_writes_them() {
    // Points group thousands where another column has decimal commas.
    assert_eq!(series("a;b\n1.234;0,5\n12.345;1,5\n").values(), [[1234.0, 12345.0], [0.5, 1.5]]);
    assert_eq!(series("a;b\n1.234;0.5\n12.345;1.5\n").values(), [[1.234, 12.345], [0.5, 1.5]]);
    assert_eq!(series("a;b\n1,234;5\n2,345;6\n").values(), [[1.234, 2.345], [5.0, 6.0]]);
    assert_eq!(series("a;b\n1,234;0.5\n2,345;6\n").values(), [[1234.0, 2345.0], [0.5, 6.0]]);
    assert_eq!(series("a,b\n\"1,234\",0.5\n\"2,345\",6\n").values(), [[1234.0, 2345.0], [0.5, 6.0]]);
    assert_eq!(series("a,b\n\"1,5\",2\n\"2,25\",6\n").values(), [[1.5, 2.25], [2.0, 6.0]]);
    assert_eq!(series("a\tb\n1.234,5\t2\n7,25\t6\n").values(), [[1234.5, 7.25], [2.0, 6.0]]);
}

#[test]
fn what_is_no_value_is_left_out_and_named() {
    let text = days("date,a,city,empty,k,sparse,on,a", |i| {
        let sparse = if i > 6 { "1" } else { "" };
        format!("{i},Rome,,3,{sparse},{},{}", ["True", "False"][i % 2], i * i)
    });
    let panel = panel(&text);
    assert_eq!(panel.columns(), ["a", "on", "a.1"]);
    assert_eq!(panel.series()[0].values()[1][..3], [1.0, 0.0, 1.0]);
    assert_eq!(
        panel.summary().notes,
        [
            "columns of one name renamed: `a` (column 8) is `a.1`",
            "1 column left out: city (text)",
            "1 column left out: empty (empty)",
            "1 column left out: `sparse` (7 of 12 values missing)",
            "1 column of true and false read as 1 and 0: on",
            "1 column left out: k (constant)"
        ]
    );
    // What is asked for stays, in the order asked.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.csv");
    std::fs::write(&path, text).expect("written");
    let columns = Some(vec!["k".to_owned(), "sparse".to_owned()]);
    let kept = read(&path, &ReadOptions { columns, ..ReadOptions::default() }).expect("two columns");
    assert_eq!(kept.values(), [[3.0; 12], [1.0; 12]]);
}

#[test]
fn rows_are_put_in_order_and_repeats_left_out() {
    let p = panel("date,a\n2020-01-03,3\n2020-01-01,1\n2020-01-02,2\n2020-01-02,2\n");
    assert_eq!(p.series()[0].values(), [[1.0, 2.0, 3.0]]);
    assert_eq!(p.notices(), ["rows sorted by date", "1 row left out, equal to another in every cell"]);
    // Of two columns that tell rows apart the one of fewer series.
    let rows = (0..12).flat_map(|i| ["x", "y"].map(|s| format!("{s},{},2020-01-{:02},{i}\n", i % 4, i + 1)));
    let p = panel(&format!("site,k,date,v\n{}", rows.collect::<String>()));
    assert_eq!((p.found().series_id.clone(), p.series().len()), (vec!["site".to_owned()], 2));
    // Stores by number.
    let rows = (0..12).flat_map(|i| [7, 9].map(|s| format!("2020-01-{:02},{s},{i}.5\n", i + 1)));
    let p = panel(&format!("date,store,v\n{}", rows.collect::<String>()));
    assert_eq!(p.series().iter().map(Series::name).collect::<Vec<_>>(), ["7", "9"]);
}

#[test]
fn holes_are_filled_and_ends_left_out() {
    let cell = |i| match i {
        0 | 11 => ",".to_owned(),
        1 => "NA,1".to_owned(),
        5 => "?,5".to_owned(),
        i => format!("{i},{i}"),
    };
    let p = panel(&days("date,a,b", cell));
    let expected: Vec<f64> = (1..11).map(f64::from).collect();
    assert_eq!(p.series()[0].values()[1], expected);
    assert_eq!(p.series()[0].values()[0][..6], [2.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(
        p.notices(),
        [
            "2 rows without any value left out at the start or the end",
            "2 missing values interpolated between the values on both sides, so a filled row knows of the next value: a (2)"
        ]
    );
}

#[test]
fn gaps_are_filled_up_to_a_third() {
    let of = |keep: &dyn Fn(usize) -> bool| {
        let rows =
            (0..30).filter(|i| keep(*i)).map(|i| format!("2020-01-01 {:02}:{:02},{i}\n", i / 2, i % 2 * 30));
        panel(&format!("date,a\n{}", rows.collect::<String>()))
    };
    let filled = of(&|i| !(5..15).contains(&i));
    assert_eq!(
        (filled.rows(), filled.frequency().map(|f| f.to_string())),
        (30, Some("every 30 min".to_owned()))
    );
    assert_eq!(filled.series()[0].values()[0][..16], (0..16).map(f64::from).collect::<Vec<_>>());
    assert!(
        filled.notices()[0].starts_with(
            "10 rows inserted where the dates skip them (10 of them between 2020-01-01 02:00:00"
        )
    );
    let kept = of(&|i| !(5..16).contains(&i));
    assert_eq!((kept.rows(), kept.notices().len()), (19, 0));
    assert!(
        kept.summary().notes[0].ends_with("windows count rows as if none were missing"),
        "{:?}",
        kept.summary()
    );
    // No step at all: the rows are counted.
    let p = panel("date,a\n2020-01-01,1\n2020-01-02,2\n2020-01-04,3\n2020-01-11,4\n2020-01-12 13:00,5\n");
    assert_eq!((p.rows(), p.frequency()), (5, None));
    assert_eq!(
        p.summary().lines()[1],
        "  dates: irregular, rows are counted as steps, 2020-01-01 00:00 to 2020-01-12 13:00, in column `date`"
    );
}

#[test]
fn the_date_column_is_found_wherever_it_stands() {
    let dated =
        |text: &str| series(text).dates().map(|d| (d.column().to_owned(), d.form().pattern().to_owned()));
    let found = |column: &str, pattern: &str| Some((column.to_owned(), pattern.to_owned()));
    assert_eq!(dated("a,b,noted\n1,2,2020-01-01\n3,4,2020-01-02\n"), found("noted", "%Y-%m-%d"));
    // By name before others, and else the first.
    assert_eq!(
        dated("seen,date,a\n2020-01-01,2020-02-01,1\n2020-01-02,2020-02-02,2\n").map(|d| d.0),
        Some("date".to_owned())
    );
    assert_eq!(
        dated("seen,sent,a\n2020-01-01,2020-02-01,1\n2020-01-02,2020-02-02,2\n").map(|d| d.0),
        Some("seen".to_owned())
    );
    // Whole numbers only where the name says so.
    assert_eq!(dated("a,year\n1,1999\n2,2000\n"), found("year", "%Y"));
    assert_eq!(dated("a,price\n1,1999\n2,2000\n"), None);
    assert_eq!(dated("a,lot\n1,20200101\n2,20200102\n"), None);
    assert_eq!(dated(",a\n1821,1\n1822,2\n"), found("date", "%Y"));
    assert_eq!(dated(",a\n0,1\n1,2\n"), None);
    // Asked for by name, with a format of its own.
    let options = ReadOptions {
        date_column: Some(vec!["t".to_owned()]),
        date_format: Some("%d. %m. %Y at %H".to_owned()),
        ..ReadOptions::default()
    };
    let s = parse(b"date,t,a\n2020-01-01,3. 1. 2020 at 4,1\n2020-01-02,3. 1. 2020 at 5,2\n", "f", &options)
        .expect("dated");
    let dates = s.dates().expect("dated");
    assert_eq!((dates.column(), dates.frequency().to_string().as_str()), ("t", "hourly"));
    assert_eq!(dates.format(dates.future(1).expect("hourly")[0]), "03. 01. 2020 at 06");
}
