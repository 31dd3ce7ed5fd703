//! Every reason why a file is refused, with its whole message.

use landfall_data::{Fill, Panel, Purpose, ReadOptions, parse, read};

fn refused_with(text: impl AsRef<[u8]>, options: &ReadOptions) -> String {
    parse(text.as_ref(), "f.csv", options).expect_err("must be refused").to_string()
}

fn refused(text: impl AsRef<[u8]>) -> String {
    refused_with(text, &ReadOptions::default())
}

fn filled(text: &str, fill: Fill) -> String {
    refused_with(text, &ReadOptions { fill: Some(fill), ..ReadOptions::default() })
}

fn picked(text: &str, columns: &[&str]) -> String {
    let columns = columns.iter().map(|&c| c.to_owned()).collect();
    refused_with(text, &ReadOptions { columns: Some(columns), ..ReadOptions::default() })
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("absent.csv");
    let error = read(&path, &ReadOptions::default()).expect_err("absent").to_string();
    assert_eq!(error, format!("{}: no such file; check the path", path.display()));

    let error = read(folder.path(), &ReadOptions::default()).expect_err("a folder").to_string();
    let file = folder.path().display();
    assert_eq!(
        error,
        format!(
            "{file}: cannot be read (it is a folder, and no file); check that it is a file and its permissions"
        )
    );
}

#[test]
fn files_that_are_no_table() {
    for empty in ["", "\u{feff}", "\r\n\r\n", "  \n"] {
        assert_eq!(refused(empty), "f.csv: the file is empty; it needs a header line and rows of numbers");
    }
    assert_eq!(refused("date,a\r\n\r\n"), "f.csv: a header line and no rows; add rows of numbers below it");
    assert_eq!(refused(b"a,b\n1,2\n3,\x81\n"), "f.csv:3: not valid UTF-8; save the file as UTF-8 text");
    let headless = "f.csv: the first line holds values, not column names; add a header line";
    assert_eq!(refused("1.5,2\n2,3\n"), headless);
    assert_eq!(refused("1,5;2\n2;3\n"), headless);
    assert_eq!(refused("2016-07-01,2\n2016-07-02,3\n"), headless);
}

#[test]
fn columns_that_cannot_be_used() {
    let none = "f.csv: no numeric column; a series needs at least one beside the date";
    assert_eq!(refused("date\n2016-07-01\n"), none);
    assert_eq!(
        refused("name,city\nAda,London\n"),
        format!(
            "{none} (f.csv:2: column `name`: `Ada` is not a number; correct or clear the cell, or choose others with columns)"
        )
    );
    assert_eq!(picked("a\n1\n", &[]), none);
    assert_eq!(
        picked("date,a,b\n2016-07-01,1,2\n", &["c"]),
        "f.csv: no column `c` among a, b; add it or correct its name"
    );
    assert_eq!(
        picked("a,b\n1,2\n", &["b", "b"]),
        "f.csv: column `b` is asked for twice; name each column once"
    );
    assert_eq!(
        picked("a,price,weather\n1,2,3\n", &["pirce"]),
        "f.csv: no column `pirce`; the nearest name is `price`; add it or correct its name"
    );
    let names: Vec<_> = (0..25).map(|i| format!("c{i}")).collect();
    let wide = format!("{}\n{}\n", names.join(","), vec!["1"; 25].join(","));
    assert_eq!(
        picked(&wide, &["x"]),
        "f.csv: no column `x` among c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, \
         c15, c16, c17, c18, c19 and 5 more; add it or correct its name"
    );
}

#[test]
fn rows_and_cells_that_are_wrong() {
    assert_eq!(refused("a,b\n1,2\n3\n"), "f.csv:3: 1 field where the header has 2; correct the row");
    assert_eq!(refused("a,b\n1,2,3\n"), "f.csv:2: 3 fields where the header has 2; correct the row");
    let or = "is not a number; correct or clear the cell, or choose others with columns";
    assert_eq!(refused("a,b\n1,2\n3,x y\n"), format!("f.csv:3: column `b`: `x y` {or}"));
    // Neither a decimal comma nor groups of three digits.
    assert_eq!(refused("a;b\n1;2\n3;1.2345,5\n"), format!("f.csv:3: column `b`: `1.2345,5` {or}"));
    assert_eq!(refused("a,b\n1,$2\n3,4\n"), format!("f.csv:2: column `b`: `$2` {or}"));
    // A column that is asked for is none of text.
    assert_eq!(picked("a,b\n1,x\n2,y\n3,4\n", &["b"]), format!("f.csv:2: column `b`: `x` {or}"));
    for infinite in ["inf", "-Infinity", "1e999"] {
        let expected = format!("f.csv:3: column `b`: `{infinite}` is infinite; correct or clear the cell");
        assert_eq!(refused(format!("a,b\n1,2\n3,{infinite}\n")), expected);
    }
}

#[test]
fn lines_are_those_of_the_file() {
    let expected =
        "f.csv:7: column `b`: `x` is not a number; correct or clear the cell, or choose others with columns";
    assert_eq!(refused("\na,b\n1,2\n\n\n3,4\n5,x\n"), expected);
    assert_eq!(refused("\r\na,b\r\n1,2\r\n\r\n\r\n3,4\r\n5,x\r\n"), expected);
    // A quoted cell may hold line ends; the row stands on its first line.
    assert_eq!(refused("a,\"b\n\n\"\n1,2\n3,4\n5,6\n5,x"), expected);
    // Lines before the header count.
    assert_eq!(refused("# of 2020\n# in kW\na,b\n1,2\n\n3,4\n5,x"), expected);
}

#[test]
fn gaps_that_a_fill_cannot_close() {
    assert_eq!(
        filled("a,b\n1,\n1,\n1,2\n", Fill::Previous),
        "f.csv:2: column `b` starts with missing values, so no previous value fills them; use fill \
         linear|zero or drop these rows"
    );
    for fill in [Fill::Previous, Fill::Linear] {
        assert_eq!(
            filled("a,b\n1,\n1,\n", fill),
            "f.csv: column `b` has no value at all; leave it out or use fill zero"
        );
    }
    let error = "mean".parse::<Fill>().expect_err("unknown").to_string();
    assert_eq!(error, "no fill `mean`; choose from previous, linear, zero");
    for fill in [Fill::Previous, Fill::Linear, Fill::Zero] {
        assert_eq!(fill.to_string().parse::<Fill>().expect("its own name"), fill);
    }
}

#[test]
fn dates_that_are_wrong() {
    let forms = "cannot be read; write all dates in one form, as 2016-07-01 13:00:00, or give theirs, as date-format \
                 '%d/%m/%Y %H:%M'";
    assert_eq!(
        refused("date,a\n2016-07-01,1\n2016-07-32,2\n"),
        format!("f.csv:3: column `date`: date `2016-07-32` {forms}")
    );
    assert_eq!(
        refused("ds,a\n2016-07-01,1\n2016/07/02,2\n"),
        format!("f.csv:3: column `ds`: date `2016/07/02` {forms}")
    );
    assert_eq!(refused("time,a\n,1\n"), format!("f.csv:2: column `time`: date `` {forms}"));
    // A column that is dates but for a cell is no text.
    assert_eq!(
        refused("a,when\n1,2016-07-01\n2,2016-07-02\n3,soon\n"),
        format!("f.csv:4: column `when`: date `soon` {forms}")
    );
    let twice = |line, date, before| {
        format!(
            "f.csv:{line}: date {date} 00:00:00 stands in line {before} too, with other values; keep one row per date, or \
             name the column that tells series apart with series-id"
        )
    };
    assert_eq!(refused("date,a\n2016-07-01,1\n2016-07-01,2\n"), twice(3, "2016-07-01", 2));
    assert_eq!(
        refused("date,a\n2016-07-02,1\n2016-07-01,2\n2016-07-03,3\n2016-07-01,4\n"),
        twice(5, "2016-07-01", 3)
    );
    assert_eq!(
        refused("date,a\n01/01/2020,1\n01/02/2020,2\n01/03/2020,3\n"),
        "f.csv: column `date`: dates may be %m/%d/%Y or %d/%m/%Y, and neither the numbers nor an even spacing decide; give \
         date-format '%m/%d/%Y' or '%d/%m/%Y'"
    );
    let formatted = |format: &str| {
        let date_format = Some(format.to_owned());
        let options =
            ReadOptions { date_format, date_column: Some(vec!["d".to_owned()]), ..ReadOptions::default() };
        refused_with("d,a\n2016-07-01,1\n", &options)
    };
    assert_eq!(
        formatted("%d/%m/%Y"),
        "f.csv:2: column `d`: date `2016-07-01` cannot be read; date-format '%d/%m/%Y' reads dates like 31/12/2024; correct \
         the date or the format"
    );
    assert_eq!(
        formatted("%d/%m"),
        "date-format `%d/%m`: no date with a year can be read by it; use strftime's codes, as in %Y-%m-%d %H:%M:%S, or \
         unix-s, unix-ms, unix-us, unix-ns"
    );
    // Whether or not the column is named.
    let nonsense = ReadOptions { date_format: Some("%Q".to_owned()), ..ReadOptions::default() };
    assert!(refused_with("date,a\n2016-07-01,1\n", &nonsense).starts_with("date-format `%Q`: no date"));
    let unknown = ReadOptions { date_column: Some(vec!["when".to_owned()]), ..ReadOptions::default() };
    assert_eq!(
        refused_with("d,a\n2016-07-01,1\n", &unknown),
        "f.csv: no column `when` among d, a; add it or correct its name"
    );
}

#[test]
fn a_run_and_a_request_are_advised_what_is_possible_there() {
    let at = |purpose, text: &str| {
        let date_format = Some("%d.%m.%Y".to_owned());
        refused_with(text, &ReadOptions { date_format, purpose, ..ReadOptions::default() })
    };
    for purpose in [Purpose::Run, Purpose::Future, Purpose::Request] {
        assert_eq!(
            at(purpose, "a\n1\nx\n"),
            "f.csv:3: column `a`: `x` is not a number; correct or clear the cell"
        );
        assert_eq!(
            at(purpose, "date,a\n2022-02-25,1\n"),
            "f.csv:2: column `date`: date `2022-02-25` cannot be read; write it like 31.12.2024, as the run's dates are"
        );
        assert_eq!(
            at(purpose, "date,a\n01.01.2024,1\n01.01.2024,2\n"),
            "f.csv:3: date 2024-01-01 00:00:00 stands in line 2 too, with other values; keep one row per date"
        );
    }
    let ahead = "sun,load\n1,2\n4,5\n7,\n";
    assert!(!at(Purpose::Request, ahead).contains("--"), "{}", at(Purpose::Request, ahead));
    let future = ReadOptions { purpose: Purpose::Future, ..ReadOptions::default() };
    let filled = parse(ahead.as_bytes(), "f.csv", &future).expect("filled");
    assert_eq!(filled.values()[1], [2.0, 5.0, 5.0]);
}

#[test]
fn columns_that_go_on_after_others() {
    let ahead = "f.csv: sun, rain has values in 2 rows after the last value of load; move rows to forecast to data \
                 of their own and columns named by known-future, or leave columns out \
                 with columns; if the values are missing by accident, fill previous|linear|zero fills them";
    assert_eq!(refused("sun,load,rain\n1,2,3\n4,5,6\n7,,8\n9,,1\n"), ahead);
}

#[test]
fn rows_that_cannot_be_inserted() {
    let gaps = |text: &str, fill| {
        refused_with(text, &ReadOptions { fill, fill_gaps: true, ..ReadOptions::default() })
    };
    let fill = Some(Fill::Linear);
    assert_eq!(
        gaps("a\n1\n2\n", fill),
        "f.csv: fill-gaps needs dates, and the file has none; add a date column or leave fill-gaps out"
    );
    assert_eq!(
        gaps(
            "date,a\n2016-07-01 00:00,1\n2016-07-01 01:00,2\n2016-07-01 02:30,3\n2016-07-01 03:30,4\n",
            fill
        ),
        "f.csv: row 3 steps from 2016-07-01 01:00:00 to 2016-07-01 02:30:00, no whole number of steps (hourly), so \
         no rows can be inserted between them; correct the dates or leave fill-gaps out"
    );
    assert_eq!(
        gaps("date,a\n2016-07-01,1\n2016-07-02,2\n2017-07-02,3\n", fill),
        "f.csv: the dates skip 364 rows and there are 3; correct the dates or leave fill-gaps out"
    );
}

#[test]
fn series_of_one_file() {
    let by = |text: &str, id: &str| {
        refused_with(text, &ReadOptions { series_id: Some(vec![id.to_owned()]), ..ReadOptions::default() })
    };
    assert_eq!(
        by("id,date,a\nx,2016-07-01,1\n", "site"),
        "f.csv: no column `site` among id, date, a; add it or correct its name"
    );
    assert_eq!(
        by("id,date,a\nx,2016-07-01,1\n,2016-07-01,1\n", "id"),
        "f.csv:3: column `id` is empty; name the series that the row belongs to"
    );
    assert_eq!(
        by("id,date,a\nx,2016-07-02,1\ny,2016-07-02,1\n", "id"),
        "f.csv: 2 series where one is needed; choose one"
    );
}

#[test]
fn a_message_is_one_line_of_bounded_length_whatever_a_cell_holds() {
    let long = "x".repeat(5000);
    for text in [
        "time,a\n\"2020-01-01T01:00\n:00\",1\n2020-01-01T02:00:00,2\n",
        "date,a\n2020-01-01,1\n2020-01-02,\"2\r\nx\u{1}\"\n",
        &format!("date,a\n2020-01-01,1\n2020-01-02,{long}\n"),
        &format!("date,\"a\n{long}\"\n2020-01-01,1\n2020-01-02,x\n"),
    ] {
        let said = refused(text);
        assert!(!said.chars().any(char::is_control) && said.len() < 500, "{said:?}");
    }
    let text = "date,\"load\n(MW)\"\n2020-01-01,1\n2020-01-02,2\n2020-01-03,4\n";
    let panel = Panel::new(vec![parse(text.as_bytes(), "f.csv", &ReadOptions::default()).expect("sound")]);
    let lines = panel.expect("one series").summary().lines();
    assert!(lines.iter().all(|line| !line.contains('\n')) && lines[0].contains("load\\n(MW)"), "{lines:?}");
}

#[test]
fn a_gap_of_any_size_is_no_fault() {
    // Counts of nanoseconds as far apart as 64 bits allow: rows are not inserted, and nothing overflows.
    for text in [
        "ds,y\n9223372036854775807,1\n20200102,2\n20200103,3\n20200104,4\n",
        "ds\ty\n9223372036854775807\t1\n20200102\t2\n20200103\tNA\n20200104\t4e3\n",
    ] {
        assert_eq!(parse(text.as_bytes(), "f.csv", &ReadOptions::default()).expect("sound").rows(), 4);
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_needs_its_feature() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    std::fs::write(&path, "PAR1").expect("written");
    let error = Panel::read(&[&path], &ReadOptions::default()).expect_err("no reader").to_string();
    assert_eq!(
        error,
        format!(
            "{}: this build does not read Parquet; build it with `cargo build --release --features parquet`, or save \
             the table as CSV",
            path.display()
        )
    );
}
