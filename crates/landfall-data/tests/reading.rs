//! Forms of numbers, tables, dates and series that other programs write, and what a run keeps of them.

use landfall_data::{DataError, Found, Panel, Purpose, ReadOptions, parse};

fn read(text: &str) -> Panel {
    read_with(text, &ReadOptions::default())
}

fn read_with(text: impl AsRef<[u8]>, options: &ReadOptions) -> Panel {
    Panel::parse(text.as_ref(), "f.csv", options).expect("a panel")
}

fn refused(text: &str) -> String {
    refused_with(text, &ReadOptions::default())
}

fn refused_with(text: &str, options: &ReadOptions) -> String {
    Panel::parse(text.as_bytes(), "f.csv", options).expect_err(text).to_string()
}

/// How a run reads other files, after it was trained on this one.
fn run_of(panel: &Panel) -> ReadOptions {
    let Found { decimal, thousands, date_column, date_format, series_id, .. } = panel.found().clone();
    ReadOptions {
        columns: Some(panel.columns().to_vec()),
        decimal,
        thousands,
        date_column: (!date_column.is_empty()).then_some(date_column),
        date_format,
        series_id: (!series_id.is_empty()).then_some(series_id),
        purpose: Purpose::Run,
        ..ReadOptions::default()
    }
}

fn values(panel: &Panel) -> &[f64] {
    &panel.series()[0].values()[0]
}

fn days(mark: char, cells: &[&str]) -> String {
    let rows = cells.iter().enumerate().map(|(i, cell)| format!("2024-01-{:02}{mark}\"{cell}\"\n", i + 1));
    format!("day{mark}y\n{}", rows.collect::<String>())
}

/// The next two dates of a file's first series, as it writes them.
fn next(panel: &Panel) -> Vec<String> {
    let dates = panel.series()[0].dates().expect("dated");
    dates.future(2).expect("even").into_iter().map(|date| dates.format(date)).collect()
}

#[test]
fn a_run_keeps_how_its_numbers_are_written() {
    for (mark, train, (decimal, thousands), newer, expected) in [
        (';', ["1.234.567", "600.013", "500.200"], (Some(','), Some('.')), "600.013", 600_013.0),
        ('\t', ["1.234.567", "600.013", "500.200"], (Some(','), Some('.')), "600.013", 600_013.0),
        (',', ["50,13", "65,505", "70,139"], (Some(','), None), "65,505", 65.505),
        (',', ["1,234,567", "600,013", "500,200"], (Some('.'), Some(',')), "600,013", 600_013.0),
        (';', ["50.13", "65.505", "70.139"], (Some('.'), None), "65.505", 65.505),
        ('|', ["1 234,5", "65,505", "70,139"], (Some(','), Some(' ')), "65,505", 65.505),
        (';', ["12'345.67", "65.505", "70.139"], (Some('.'), Some('\'')), "65.505", 65.505),
    ] {
        let panel = read(&days(mark, &train));
        let found = panel.found();
        assert_eq!((found.decimal, found.thousands), (decimal, thousands), "{train:?}");
        for other in [';', ',', '\t'] {
            let later = read_with(days(other, &[newer, newer, newer]), &run_of(&panel));
            assert_eq!(values(&later), [expected; 3], "{train:?} {other:?}");
            let future = ReadOptions { purpose: Purpose::Future, ..run_of(&panel) };
            assert_eq!(values(&read_with(days(other, &[newer; 3]), &future)), [expected; 3]);
        }
    }
}

#[test]
fn a_file_that_contradicts_the_run_is_refused() {
    let german = run_of(&read(&days(';', &["1.234,50", "600,01", "500,20"])));
    assert_eq!(
        refused_with(&days(';', &["1,234.50", "600.01"]), &german),
        "f.csv:2: column `y`: `1,234.50` is not a number; the run's numbers have a decimal comma, as 1.234,5; write it so, or \
         correct or clear the cell"
    );
    // A number that may be either, where no number of the run has groups.
    let point = run_of(&read(&days(',', &["50.13", "65.51", "70.14"])));
    assert_eq!(
        refused_with(&days(',', &["50,126", "65,505"]), &point),
        "f.csv:2: column `y`: `50,126` may be 50126 or 50.126; the run's numbers have a decimal point and no separators of \
         thousands, and no number here says what that mark is; write 50126 or 50.126"
    );
    assert_eq!(values(&read_with(days(',', &["1,050.13", "1,234"]), &point)), [1050.13, 1234.0]);
    // Neither a mark in the run nor a number in the file that decides.
    let whole = run_of(&read(&days(';', &["1234567", "600013", "500200"])));
    assert_eq!(whole.decimal, None);
    let text = refused_with(&days(';', &["600,013", "500,200"]), &whole);
    assert!(
        text.starts_with("f.csv:2: column `y`: `600,013` may be 600013 or 600.013; no number here"),
        "{text}"
    );
    assert_eq!(values(&read_with(days(';', &["1.600.013", "500.200"]), &whole)), [1_600_013.0, 500_200.0]);
    let kept = ReadOptions { decimal: Some('.'), ..whole };
    assert_eq!(values(&read_with(days(';', &["600.013", "1.5"]), &kept)), [600.013, 1.5]);
}

#[test]
fn a_file_that_does_not_say_is_read_by_its_separator_and_says_so() {
    let panel = read(&days(';', &["60.013", "70.500"]));
    assert_eq!((values(&panel), panel.found().decimal), (&[60013.0, 70500.0][..], Some(',')));
    assert_eq!(
        panel.notices()[1],
        "numbers such as `60.013` (f.csv:2, column `y`) are read with a decimal comma, since no number says which mark it is; \
         if it is a point, give decimal ."
    );
    assert_eq!(values(&read(&days(',', &["60,013", "70,500"]))), [60013.0, 70500.0]);
    let point = read(&days(',', &["60.013", "70.500"]));
    assert_eq!((values(&point), point.notices()), (&[60.013, 70.5][..], &[][..]));
    assert_eq!(values(&read(&days(';', &["60,013", "70,500"]))), [60.013, 70.5]);
    let given = |decimal, thousands| ReadOptions { decimal, thousands, ..ReadOptions::default() };
    assert_eq!(values(&read_with(days(';', &["60.013"]), &given(Some('.'), None))), [60.013]);
    assert_eq!(values(&read_with(days(',', &["60,013"]), &given(Some(','), None))), [60.013]);
    assert_eq!(values(&read_with(days(',', &["60.013"]), &given(None, Some('.')))), [60013.0]);
    assert_eq!(
        refused_with(&days(',', &["60,013"]), &given(Some(','), Some(','))),
        "decimal , and thousands ,: one mark cannot be both; give the other one to either"
    );
    assert_eq!(
        refused("a,b\n1.5,\"1,5\"\n2.5,\"2,5\"\n"),
        "f.csv:2: column `a`: `1.5` has a decimal point, and f.csv:2, column `b`: `1,5` a decimal comma; give decimal . or , \
         (columns that are no numbers then are left out), or write all numbers alike"
    );
}

#[test]
fn files_of_a_run_are_written_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, cells: &[&str]| {
        let path = folder.path().join(name);
        std::fs::write(&path, days(';', cells)).expect("written");
        path
    };
    let (a, b) = (file("a.csv", &["60.013", "70.500"]), file("b.csv", &["60.01", "70.5"]));
    let panel = Panel::read(&[&a, &b], &ReadOptions::default()).expect("read");
    assert_eq!(panel.series()[0].values()[0], [60.013, 70.5]);
    let c = file("c.csv", &["60,01", "70,5"]);
    let text = Panel::read(&[&b, &c], &ReadOptions::default()).expect_err("two marks").to_string();
    let (b, c) = (b.display(), c.display());
    assert_eq!(
        text,
        format!(
            "{c}: numbers have a decimal comma, unlike those of {b}; write the numbers of all files alike"
        )
    );
}

#[test]
fn numbers_of_other_programs_are_read() {
    for (cells, expected) in [
        (["628.65", "69,704.31", "(41,727.88)"], [628.65, 69_704.31, -41_727.88]),
        (["12-", "1,034.50-", "7"], [-12.0, -1034.5, 7.0]),
        (["12,34,567.00", "1,23,456.50", "7.5"], [1_234_567.0, 123_456.5, 7.5]),
        (["12'000.50", "1'234'567.00", "7.00"], [12_000.5, 1_234_567.0, 7.0]),
        (["12\u{2019}000.50", "1\u{2019}000.00", "7.00"], [12_000.5, 1000.0, 7.0]),
        (["1\u{a0}234,5", "12\u{202f}345,6", "7,0"], [1234.5, 12_345.6, 7.0]),
        (["EUR 1.234,50", "EUR 7,00", "-EUR 8,25"], [1234.5, 7.0, -8.25]),
        (["1,234.50 USD", "7.00 USD", "(8.25 USD)"], [1234.5, 7.0, -8.25]),
        (["R$ 1.234,50", "R$ 7,00", "R$ 8,25"], [1234.5, 7.0, 8.25]),
        (["12.5%", "7 %", "-3%"], [12.5, 7.0, -3.0]),
        (["\u{2212}12.5", "7", "+3"], [-12.5, 7.0, 3.0]),
        (["true", "FALSE", "True"], [1.0, 0.0, 1.0]),
    ] {
        assert_eq!(values(&read(&days('\t', &cells))), expected, "{cells:?}");
    }
    let codes = read("day,y,code\n2024-01-01,1,W1\n2024-01-02,2,W1\n2024-01-03,3,W2\n");
    assert_eq!(codes.columns(), ["y"]);
    assert_eq!(
        refused("day,y\n2024-01-01,12 apples\n2024-01-02,13 apples\n"),
        "f.csv: no numeric column; a series needs at least one beside the date (f.csv:2: column `y`: `12 apples` is not a number; \
         correct or clear the cell, or choose others with columns)"
    );
}

#[test]
fn tables_of_other_programs_are_read() -> Result<(), DataError> {
    let columns = |text: &[u8]| read_with(text, &ReadOptions::default()).columns().to_vec();
    assert_eq!(columns(b"sep=;\nDate;Sales\n01.01.2024;101\n02.01.2024;102\n03.01.2024;103\n"), ["Sales"]);
    assert_eq!(columns(b"\"sep=\t\"\r\nDate\tSales\r\n01.01.2024\t101\r\n02.01.2024\t102\r\n"), ["Sales"]);
    assert_eq!(columns(b"SEP=|\nDate|Sales\n01.01.2024|101\n02.01.2024|102\n"), ["Sales"]);
    assert_eq!(columns(b"Datum;Umsatz \x80\n01.01.2024;1\n02.01.2024;2\n"), ["Umsatz €"]);
    // Lines are those of the file.
    assert!(refused("sep=;\na;b\n1;2\n3;x\n").starts_with("f.csv:4: column `b`: `x`"));
    // Empty fields at the end of lines.
    let day = |day: usize, rest: &str| format!("2024-01-{day:02},{}{rest}\n", day * 10 + 1);
    let rows = |rest: &str| (1..9).map(|d| day(d, rest)).collect::<String>();
    for text in [
        format!("date,y,\n{}", rows("")),
        format!("date,y\n{}", rows(",")),
        format!("date,y,,,\n{}", rows(",,")),
        format!("Report,,,\n\ndate,y,,\n{}", rows(",,")),
        format!("date,y,,\n{}", rows(",,")),
    ] {
        let panel = read(&text);
        assert_eq!((panel.columns(), panel.rows()), (&["y".to_owned()][..], 8), "{text}");
        assert_eq!(values(&panel)[0], 11.0);
    }
    let ragged = refused("a,b,\n1,2\n3\n");
    assert_eq!(ragged, "f.csv:3: 1 field where the header has 2; correct the row");
    let missing = read("date,a,b\n2024-01-01,1,2\n2024-01-02,3,\n2024-01-03,5,6\n");
    assert_eq!(missing.series()[0].values()[1], [2.0, 4.0, 6.0]);
    // A line of values in the place of the header.
    for text in [
        "X,1959,Q01,5.8\nX,1959,Q02,5.1\n",
        "A,2024-01-01,5\nA,2024-01-02,6\n",
        "W1,1,1089\nW1,2,1078\n",
        "20240101,5\n20240102,6\n",
    ] {
        let text = parse(text.as_bytes(), "f.csv", &ReadOptions::default()).expect_err(text).to_string();
        assert_eq!(text, "f.csv: the first line holds values, not column names; add a header line");
    }
    assert_eq!(columns(b"id,2019,2020\nX,5,6\nY,7,9\n"), ["2019", "2020"]);
    Ok(())
}

#[test]
fn the_century_of_two_digit_years_is_that_of_the_row_of_years() {
    let rows = |form: &dyn Fn(usize) -> String, n: usize| {
        let rows = (0..n).map(|i| format!("{},{}\n", form(i), 100 + i));
        format!("month,y\n{}", rows.collect::<String>())
    };
    const NAMES: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let named = |from: usize| move |i: usize| format!("{}-{:02}", NAMES[i % 12], (from + i / 12) % 100);
    let panel = read(&rows(&named(66), 60));
    assert_eq!((next(&panel), values(&panel)[0]), (vec!["Jan-71".to_owned(), "Feb-71".to_owned()], 100.0));
    assert_eq!(next(&read(&rows(&named(95), 120))), ["Jan-05", "Feb-05"]);
    assert_eq!(next(&read(&rows(&named(58), 264))), ["Jan-80", "Feb-80"]);
    let numbers = |i: usize| format!("01.{:02}.{:02}", i % 12 + 1, 58 + i / 12);
    assert_eq!(next(&read(&rows(&numbers, 264))), ["01.01.80", "01.02.80"]);
    let given = ReadOptions { date_format: Some("%d.%m.%y".to_owned()), ..ReadOptions::default() };
    assert_eq!(next(&read_with(rows(&numbers, 264), &given)), ["01.01.80", "01.02.80"]);
    assert_eq!(
        refused("month,y\nJan-16,1\nJan-66,2\n"),
        "f.csv: column `month`: two-digit years from 66 on to 16 do not say their century; write years with four digits"
    );
}

#[test]
fn digits_and_floats_are_dates() {
    let rows = |name: &str, cells: &[String]| {
        let rows = cells.iter().enumerate().map(|(i, cell)| format!("{cell},{}\n", 100 + i % 7));
        format!("{name},y\n{}", rows.collect::<String>())
    };
    let of = |cell: &dyn Fn(i64) -> String| (0..20).map(cell).collect::<Vec<_>>();
    let start = 1_616_976_024_i64;
    for (name, cells, expected) in [
        ("time", of(&|i| format!("202201{:02}00", i + 12)), ["2022020100", "2022020200"]),
        (
            "time",
            of(&|i| format!("202201{:02}{:02}", 31 + (i + 4) / 24, (i + 4) % 24)),
            ["2022020100", "2022020101"],
        ),
        ("ts", of(&|i| format!("{}.0", start + 60 * i)), ["1616977224.0", "1616977284.0"]),
        ("timestamp", of(&|i| format!("{}.0", start + 60 * i)), ["1616977224.0", "1616977284.0"]),
        ("timestamp", of(&|i| format!("{}000.0", start + 60 * i)), ["1616977224000.0", "1616977284000.0"]),
        ("timestamp", of(&|i| format!("{}000000", start + 60 * i)), ["1616977224000000", "1616977284000000"]),
        (
            "epoch",
            of(&|i| format!("{:?}e+18", (start + 60 * i) as f64 / 1e9)),
            ["1616977224000000000", "1616977284000000000"],
        ),
        ("date", of(&|i| format!("202112{:02}.0", i + 12)), ["20220101.0", "20220102.0"]),
        ("date", of(&|i| format!("{}.0", 2001 + i)), ["2021", "2022"]),
        ("date", of(&|i| format!("{:02}122021", i + 12)), ["01012022", "02012022"]),
        ("yyyyddd", of(&|i| format!("2020{:03}", i + 347)), ["2021001", "2021002"]),
    ] {
        let panel = read(&rows(name, &cells));
        assert_eq!(
            (next(&panel), panel.columns()),
            (expected.map(str::to_owned).to_vec(), &["y".to_owned()][..]),
            "{cells:?}"
        );
        // A run reads them again.
        assert_eq!(next(&read_with(rows(name, &cells), &run_of(&panel))), expected);
    }
    for cells in
        [of(&|i| format!("{}", 20_000_120 + i)), of(&|i| format!("{}", 200_001 + i)), of(&|i| i.to_string())]
    {
        let panel = read(&rows("ds", &cells));
        assert_eq!((panel.series()[0].dates(), panel.columns()), (None, &["y".to_owned()][..]));
        assert!(
            panel.notices()[0].ends_with("column `ds` left out: it numbers the rows"),
            "{:?}",
            panel.notices()
        );
    }
    let uneven = read(&rows("time", &of(&|i| format!("{}", i * i))));
    assert!(
        uneven.notices()[0].starts_with("column `time` left out: it ascends and is no date"),
        "{:?}",
        uneven.notices()
    );
}

#[test]
fn columns_that_are_called_a_time_are_dates_or_asked_for() {
    let rows = |header: &str, n: usize, row: &dyn Fn(usize) -> String| {
        let rows = (0..n).map(|i| format!("{},{}.5\n", row(i), 100 + i % 7));
        format!("{header},y\n{}", rows.collect::<String>())
    };
    for (header, n, row, frequency, expected) in [
        (
            "yearmonth",
            48,
            &(|i: usize| format!("{}{:02}", 2016 + i / 12, i % 12 + 1)) as &dyn Fn(usize) -> String,
            "monthly",
            "202001",
        ),
        ("x", 48, &|i| format!("{}{:02}", 2016 + i / 12, i % 12 + 1), "monthly", "202001"),
        ("week", 60, &|i| format!("{}{:02}", 2018 + i / 52, i % 52 + 1), "weekly (Monday)", "201909"),
        ("year,week", 104, &|i| format!("{},{}", 2016 + i / 52, i % 52 + 1), "weekly (Monday)", "2018-W01"),
        ("year,month", 24, &|i| format!("{},{}", 2016 + i / 12, i % 12 + 1), "monthly", "2018-01"),
        ("Jahr;Monat", 24, &|i| format!("{};{}", 2016 + i / 12, i % 12 + 1), "monthly", "2018-01"),
        ("year,quarter", 12, &|i| format!("{},{}", 2016 + i / 4, i % 4 + 1), "quarterly", "2019Q1"),
        ("yr,per", 12, &|i| format!("{},Q{:02}", 2016 + i / 4, i % 4 + 1), "quarterly", "2019Q1"),
        ("year,period", 24, &|i| format!("{},M{:02}", 2016 + i / 12, i % 12 + 1), "monthly", "2018-01"),
        (
            "fiscal_year,fiscal_month",
            24,
            &|i| format!("{},{}", 2016 + i / 12, i % 12 + 1),
            "monthly",
            "2018-01",
        ),
        ("year,doy", 60, &|i| format!("2021,{}", i + 1), "daily", "2021-061"),
        (
            "year,month,day,hour,minute",
            96,
            &|i| format!("2021,1,{},{},{}", i / 48 + 1, i / 2 % 24, i % 2 * 30),
            "every 30 min",
            "2021-01-03 00:00",
        ),
        (
            "date,hour_ending",
            48,
            &|i| format!("2021-01-{:02},{}", i / 24 + 1, i % 24 + 1),
            "hourly",
            "2021-01-03 00:00",
        ),
        (
            "date,HE",
            48,
            &|i| format!("2021-01-{:02},HE{:02}", i / 24 + 1, i % 24 + 1),
            "hourly",
            "2021-01-03 00:00",
        ),
        (
            "date,settlement_period",
            96,
            &|i| format!("2021-01-{:02},{}", i / 48 + 1, i % 48 + 1),
            "every 30 min",
            "2021-01-03 00:00",
        ),
        (
            "date,hour,minute",
            96,
            &|i| format!("2021-01-{:02},{},{}", i / 48 + 1, i / 2 % 24, i % 2 * 30),
            "every 30 min",
            "2021-01-03 00:00",
        ),
        (
            "date,time",
            48,
            &|i| format!("2021-01-{:02},{:02}00", i / 24 + 1, i % 24),
            "hourly",
            "2021-01-03 00:00",
        ),
        ("period", 24, &|i| format!("{}M{:02}", 2016 + i / 12, i % 12 + 1), "monthly", "2018M01"),
        ("week", 52, &|i| format!("2021-W{:02}", i + 1), "weekly (Monday)", "2022-W01"),
    ] {
        let text = rows(header, n, row).replace(';', ",");
        let panel = read(&text);
        let found =
            (panel.columns().to_vec(), panel.frequency().map(|f| f.to_string()), next(&panel)[0].clone());
        assert_eq!(
            found,
            (vec!["y".to_owned()], Some(frequency.to_owned()), expected.to_owned()),
            "{header}"
        );
        assert_eq!(panel.series().len(), 1, "{header}");
        // A run reads its last rows alike.
        let lines: Vec<&str> = text.lines().collect();
        let last = [&lines[..1], &lines[lines.len() - 4..]].concat().join("\n");
        assert_eq!(next(&read_with(last, &run_of(&panel)))[0], expected, "{header}");
    }
    for (header, n, row, named) in [
        (
            "fiscal_year,month",
            24,
            &(|i: usize| format!("{},{}", 2016 + i / 12, (i + 9) % 12 + 1)) as &dyn Fn(usize) -> String,
            "`fiscal_year`, `month`",
        ),
        ("date,hour", 48, &|i| format!("2021-01-{:02},{}", i / 24 + 1, i % 24 + 1), "`hour`"),
        ("date,interval", 40, &|i| format!("2021-01-{:02},{}", i / 10 + 1, i % 10 + 1), "`interval`"),
        ("hour", 48, &|i| format!("{}", i % 24), "`hour`"),
        ("year,week", 106, &|i| format!("{},{}", 2016 + i / 53, i % 53 + 1), "`year`, `week`"),
    ] {
        let text = refused(&rows(header, n, row));
        assert!(text.contains(named) && text.contains("date-column"), "{header}: {text}");
        let options =
            ReadOptions { columns: Some(vec!["y".to_owned()]), date_column: None, ..ReadOptions::default() };
        if !header.starts_with("date") && !header.starts_with("year") && !header.starts_with("fiscal") {
            assert_eq!(read_with(rows(header, n, row), &options).columns(), ["y"]);
        }
    }
}

#[test]
fn series_that_share_no_date_are_told_apart() {
    let rows = |name: &str, ids: [&str; 2]| {
        let rows = (0..24).map(|i| {
            format!(
                "{},2024-01-{:02},{}\n",
                ids[i / 12],
                i + 1,
                if i < 12 { 1000 + i % 3 } else { 10 + i % 3 }
            )
        });
        format!("{name},ds,y\n{}", rows.collect::<String>())
    };
    for (name, ids) in [
        ("unique_id", ["A", "B"]),
        ("unique_id", ["1", "2"]),
        ("item_id", ["7", "9"]),
        ("itemId", ["x", "y"]),
        ("store", ["x", "y"]),
        ("Series", ["x", "y"]),
    ] {
        let panel = read(&rows(name, ids));
        assert_eq!((panel.series().len(), panel.columns()), (2, &["y".to_owned()][..]), "{name}");
        assert_eq!((panel.found().series_id.clone(), values(&panel)[0]), (vec![name.to_owned()], 1000.0));
    }
    // Another name, where the dates go back.
    let back = |cell: [&str; 2]| {
        let rows =
            (0..24).map(|i| format!("{},2024-{:02}-{:02},{i}\n", cell[i / 12], 2 - i / 12, i % 12 + 1));
        format!("kind,ds,y\n{}", rows.collect::<String>())
    };
    assert_eq!(read(&back(["x", "y"])).series().len(), 2);
    // A column that changes once in a series is none that names series.
    let phase = read(&rows("phase", ["before", "after"]));
    assert_eq!((phase.series().len(), phase.columns()), (1, &["y".to_owned()][..]));
    // Two columns together.
    let items = (0..36).map(|i| {
        format!(
            "{},{},2024-{:02}-{:02},{i}\n",
            ["n", "s"][i / 18],
            ["p", "q"][i / 9 % 2],
            i / 18 + 1,
            i % 18 + 1
        )
    });
    let panel = read(&format!("store,item,ds,y\n{}", items.collect::<String>()));
    assert_eq!(panel.series().iter().map(|s| s.name()).collect::<Vec<_>>(), ["n/p", "n/q", "s/p", "s/q"]);
}

#[test]
fn whole_numbers_count_the_rows_of_each_series() {
    let rows = |name: &str, id: &dyn Fn(usize) -> String, step: &dyn Fn(usize, usize) -> String| {
        let rows = (0..4).flat_map(|s| (0..20).map(move |i| (s, i)));
        let rows = rows.map(|(s, i)| format!("{},{},{}.25\n", id(s), step(s, i), 1000 * s + i));
        format!("unique_id,{name},y\n{}", rows.collect::<String>())
    };
    let text = |s: usize| format!("W{s}");
    for (name, step) in [
        ("ds", &(|_, i: usize| (i + 1).to_string()) as &dyn Fn(usize, usize) -> String),
        ("ds", &|_, i| format!("{}.0", i + 1)),
        ("ds", &|s, i| (20 * s + i).to_string()),
        ("ds", &|s, i| (s + i * 5).to_string()),
        ("step", &|_, i| i.to_string()),
        ("ds", &|_, i| (20 - i).to_string()),
    ] {
        for id in [&text as &dyn Fn(usize) -> String, &|s| (s + 1).to_string()] {
            let panel = read(&rows(name, id, step));
            assert_eq!((panel.series().len(), panel.columns()), (4, &["y".to_owned()][..]), "{name}");
            assert_eq!(panel.found().series_id, ["unique_id"]);
            let first = &panel.series()[0].values()[0];
            assert!(first.is_sorted() != step(0, 0).starts_with("20"), "{first:?}");
            let again = read_with(rows(name, id, step), &run_of(&panel));
            assert_eq!(again.series(), panel.series());
        }
    }
    let text = refused("ds,y\n1,5.5\n2,6.5\n3,7.5\n1,8.5\n2,9.5\n3,4.5\n");
    assert!(text.contains("`ds`") && text.contains("date-column"), "{text}");
}

#[test]
fn data_of_another_frequency_is_refused() {
    let every = |step: usize, rows: usize| {
        let date = |i: usize| {
            chrono::NaiveDate::from_ymd_opt(2024, 1, 1).expect("a day") + chrono::Days::new((i * step) as u64)
        };
        let rows = (0..rows).map(|i| format!("{},{i}\n", date(i)));
        read(&format!("date,y\n{}", rows.collect::<String>()))
    };
    let daily = every(1, 30).frequencies();
    assert_eq!(daily, ["daily"]);
    assert!(every(1, 10).check_frequency(&daily).is_ok());
    assert_eq!(
        every(7, 10).check_frequency(&daily).expect_err("weekly").to_string(),
        "f.csv: dates are weekly (Monday), and those of the run are daily; give data of the run's frequency"
    );
    assert!(every(2, 4).check_frequency(&daily).is_err());
    assert!(every(1, 5).check_frequency(&["business days".to_owned()]).is_ok());
    assert!(every(1, 15).check_frequency(&["business days".to_owned()]).is_err());
    assert!(every(7, 10).check_frequency(&[]).is_ok());
}
