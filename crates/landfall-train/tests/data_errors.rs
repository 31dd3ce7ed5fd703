//! Every reason why a file is refused, with its whole message.

use landfall_train::data::csv::parse;
use landfall_train::data::{Fill, ReadOptions, read};

fn refused_with(text: impl AsRef<[u8]>, options: &ReadOptions) -> String {
    parse(text.as_ref(), "f.csv", options).expect_err("must be refused").to_string()
}

fn refused(text: impl AsRef<[u8]>) -> String {
    refused_with(text, &ReadOptions::default())
}

fn filled(text: &str, fill: Fill) -> String {
    refused_with(text, &ReadOptions { columns: None, fill: Some(fill) })
}

fn picked(text: &str, columns: &[&str]) -> String {
    let columns = columns.iter().map(|&c| c.to_owned()).collect();
    refused_with(text, &ReadOptions { columns: Some(columns), fill: None })
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("absent.csv");
    let error = read(&path, &ReadOptions::default()).expect_err("absent").to_string();
    assert_eq!(error, format!("{}: no such file; check the path", path.display()));

    let reason = std::fs::read(folder.path()).expect_err("a folder is no file");
    let error = read(folder.path(), &ReadOptions::default()).expect_err("a folder").to_string();
    let file = folder.path().display();
    assert_eq!(
        error,
        format!("{file}: cannot be read ({reason}); check that it is a file and its permissions")
    );
}

#[test]
fn files_that_are_no_table() {
    for empty in ["", "\u{feff}", "\r\n\r\n", "  \n"] {
        assert_eq!(refused(empty), "f.csv: the file is empty; it needs a header line and rows of numbers");
    }
    assert_eq!(refused("date,a\r\n\r\n"), "f.csv: a header line and no rows; add rows of numbers below it");
    assert_eq!(refused(b"a,b\n1,2\n3,\xff\n"), "f.csv:3: not valid UTF-8; save the file as UTF-8 text");
    let headless = "f.csv: the first line holds values, not column names; add a header line";
    assert_eq!(refused("1.5,2\n2,3\n"), headless);
    assert_eq!(refused("1,5;2\n2;3\n"), headless);
    assert_eq!(refused("2016-07-01,2\n2016-07-02,3\n"), headless);
}

#[test]
fn columns_that_cannot_be_used() {
    let none = "f.csv: no numeric column; a series needs at least one beside the date";
    assert_eq!(refused("date\n2016-07-01\n"), none);
    assert_eq!(refused("name,city\nAda,London\n"), none);
    assert_eq!(picked("a\n1\n", &[]), none);
    assert_eq!(refused("a,b,a\n1,2,3\n"), "f.csv: column `a` is there twice; give each column its own name");
    assert_eq!(refused("a,,c\n1,2,3\n"), "f.csv: column 2 has no name; name every column in the header line");
    assert_eq!(
        refused("date,,c\n2016-07-01,2,3\n"),
        "f.csv: column 2 has no name; name every column in the header line"
    );
    assert_eq!(picked("date,a,b\n2016-07-01,1,2\n", &["c"]), "f.csv: no column `c`; choose from a, b");
    assert_eq!(
        picked("a,b\n1,2\n", &["b", "b"]),
        "f.csv: column `b` is asked for twice; name each column once"
    );
    let names: Vec<_> = (0..25).map(|i| format!("c{i}")).collect();
    let wide = format!("{}\n{}\n", names.join(","), vec!["1"; 25].join(","));
    assert_eq!(
        picked(&wide, &["x"]),
        "f.csv: no column `x`; choose from c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, \
         c15, c16, c17, c18, c19 and 5 more"
    );
}

#[test]
fn rows_and_cells_that_are_wrong() {
    assert_eq!(refused("a,b\n1,2\n3\n"), "f.csv:3: 1 fields where the header has 2; correct the row");
    assert_eq!(refused("a,b\n1,2,3\n"), "f.csv:2: 3 fields where the header has 2; correct the row");
    assert_eq!(
        refused("a,b\n1,2\n3,x y\n"),
        "f.csv:3: column `b`: `x y` is not a number; correct it or leave the column out"
    );
    assert_eq!(
        refused("a;b\n1;2\n3;1.234,5\n"),
        "f.csv:3: column `b`: `1.234,5` is not a number; correct it or leave the column out"
    );
    for missing in ["", "NA", "NaN", "nan", "null", "-", "-nan"] {
        let expected =
            format!("f.csv:3: column `b`: missing value `{missing}`; --fill previous|linear|zero fills it");
        assert_eq!(refused(format!("a,b\n1,2\n3, {missing}\n")), expected);
    }
    for infinite in ["inf", "-Infinity", "1e999"] {
        let expected = format!(
            "f.csv:3: column `b`: `{infinite}` is infinite; correct it or clear the cell and use --fill"
        );
        assert_eq!(refused(format!("a,b\n1,2\n3,{infinite}\n")), expected);
    }
}

#[test]
fn lines_are_those_of_the_file() {
    let expected = "f.csv:7: column `b`: `x` is not a number; correct it or leave the column out";
    assert_eq!(refused("\na,b\n1,2\n\n\n3,4\n5,x\n"), expected);
    assert_eq!(refused("\r\na,b\r\n1,2\r\n\r\n\r\n3,4\r\n5,x\r\n"), expected);
    // A quoted cell may hold line ends; the row stands on its first line.
    assert_eq!(refused("a,\"b\n\n\"\n1,2\n3,4\n5,6\n5,x"), expected);
}

#[test]
fn gaps_that_a_fill_cannot_close() {
    assert_eq!(
        filled("a,b\n1,\n1,\n1,2\n", Fill::Previous),
        "f.csv:2: column `b` starts with missing values, so no previous value fills them; use --fill \
         linear|zero or drop these rows"
    );
    for fill in [Fill::Previous, Fill::Linear] {
        assert_eq!(
            filled("a,b\n1,\n1,\n", fill),
            "f.csv: column `b` has no value at all; leave it out or use --fill zero"
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
    let forms = "cannot be read; write all dates in one form, as 2016-07-01 13:00:00, 2016/7/1 13:00 or \
                 01.07.2016 13:00";
    assert_eq!(
        refused("date,a\n2016-07-01,1\n2016-07-32,2\n"),
        format!("f.csv:3: column `date`: date `2016-07-32` {forms}")
    );
    assert_eq!(
        refused("ds,a\n2016-07-01,1\n2016/07/02,2\n"),
        format!("f.csv:3: column `ds`: date `2016/07/02` {forms}")
    );
    assert_eq!(refused("time,a\n,1\n"), format!("f.csv:2: column `time`: date `` {forms}"));
    assert_eq!(
        refused("date,a\n2016-07-01 01:00,1\n2016-07-01 00:00,2\n"),
        "f.csv:3: date 2016-07-01 00:00:00 is before 2016-07-01 01:00:00 in the row above; sort the rows by \
         date"
    );
    assert_eq!(
        refused("date,a\n2016-07-01,1\n2016-07-01,2\n"),
        "f.csv:3: date 2016-07-01 00:00:00 is there twice; keep one row per date"
    );
}
