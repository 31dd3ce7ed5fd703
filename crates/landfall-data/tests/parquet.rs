//! A Parquet file reads as the same table in a CSV does.
#![cfg(feature = "parquet")]

use landfall_data::{Fill, Panel, ReadOptions, read};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// 2021-01-01 00:00:00 in days, and in milliseconds.
const START_DAY: i32 = 18_628;
const START: i64 = 1_609_459_200_000;

/// The cells of a column, `None` for null.
enum Cells<'a> {
    Truths(Vec<Option<bool>>),
    Ints(Vec<Option<i32>>),
    Longs(Vec<Option<i64>>),
    Floats(Vec<Option<f32>>),
    Doubles(Vec<Option<f64>>),
    Texts(Vec<Option<&'a str>>),
    Bytes16(Vec<Option<i128>>),
}

impl Cells<'_> {
    fn write(self, column: &mut SerializedColumnWriter<'_>) -> std::result::Result<(), ParquetError> {
        match self {
            Self::Truths(cells) => put::<BoolType>(column, cells),
            Self::Ints(cells) => put::<Int32Type>(column, cells),
            Self::Longs(cells) => put::<Int64Type>(column, cells),
            Self::Floats(cells) => put::<FloatType>(column, cells),
            Self::Doubles(cells) => put::<DoubleType>(column, cells),
            Self::Texts(cells) => put::<ByteArrayType>(
                column,
                cells.into_iter().map(|text| text.map(ByteArray::from)).collect(),
            ),
            Self::Bytes16(cells) => {
                let bytes = |n: i128| FixedLenByteArray::from(n.to_be_bytes().to_vec());
                put::<FixedLenByteArrayType>(column, cells.into_iter().map(|n| n.map(bytes)).collect())
            }
        }
    }
}

fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: Vec<Option<T::T>>,
) -> std::result::Result<(), ParquetError> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let known: Vec<T::T> = cells.into_iter().flatten().collect();
    column.typed::<T>().write_batch(&known, Some(&levels), None).map(|_| ())
}

/// Writes a table of these columns: the type and name of each, as `int32 day (DATE)`, and its cells.
fn write(path: &Path, columns: Vec<(&str, Cells<'_>)>) -> Result<()> {
    let fields: String = columns.iter().map(|(field, _)| format!("optional {field};\n")).collect();
    let schema = Arc::new(parse_message_type(&format!("message table {{ {fields} }}"))?);
    let compression = parquet::basic::Compression::SNAPPY;
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(fs::File::create(path)?, schema, properties)?;
    let mut group = writer.next_row_group()?;
    for (_, cells) in columns {
        let mut column = group.next_column()?.ok_or("a column for each field")?;
        cells.write(&mut column)?;
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// A path in a folder.
fn named(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

/// Why a file cannot be read.
fn refused(path: &Path, options: &ReadOptions) -> String {
    let why = Panel::read(&[path], options).err().map_or_else(String::new, |error| error.to_string());
    why.replace(&path.display().to_string(), "t.parquet")
}

fn some<T>(cells: impl IntoIterator<Item = T>) -> Vec<Option<T>> {
    cells.into_iter().map(Some).collect()
}

/// Hours from the first of January on, in milliseconds.
fn hours(n: i64) -> Cells<'static> {
    Cells::Longs(some((0..n).map(|i| START + i * 3_600_000)))
}

#[test]
fn the_same_table_gives_the_same_series() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (parquet, csv) = (named(&folder, "t.parquet"), named(&folder, "t.csv"));
    let sites = ["x", "x", "x", "z", "z"];
    let loads = [Some(0.1), None, Some(1e-300), Some(-3.0), Some(f64::MAX)];
    let columns = vec![
        ("binary site (UTF8)", Cells::Texts(some(sites))),
        ("int64 date (TIMESTAMP_MILLIS)", hours(5)),
        ("double load", Cells::Doubles(loads.to_vec())),
        ("int64 count", Cells::Longs(some(0..5))),
    ];
    write(&parquet, columns)?;
    let mut text = "site,date,load,count\n".to_owned();
    for (i, (site, load)) in sites.iter().zip(loads).enumerate() {
        let load = load.map_or(String::new(), |l| format!("{l:?}"));
        text += &format!("{site},2021-01-01 {i:02}:00:00,{load},{i}\n");
    }
    fs::write(&csv, text)?;
    // The dates repeat not, so the text names no series and is left out.
    let wide = Panel::read(&[&parquet], &ReadOptions::default())?;
    assert_eq!((wide.series().len(), wide.notices()[0].as_str()), (1, "1 column left out: site (text)"));
    let by_site = ReadOptions { series_id: Some(vec!["site".to_owned()]), ..ReadOptions::default() };
    let options = ReadOptions { fill: Some(Fill::Linear), ..by_site };
    let (a, b) = (Panel::read(&[&parquet], &options)?, Panel::read(&[&csv], &options)?);
    assert_eq!(a.series().len(), 2);
    for (a, b) in a.series().iter().zip(b.series()) {
        assert_eq!(
            (a.name(), a.columns(), a.values(), a.dates()),
            (b.name(), b.columns(), b.values(), b.dates())
        );
    }

    fs::write(&parquet, "no table")?;
    let why = refused(&parquet, &ReadOptions::default());
    assert!(why.contains("t.parquet: not a readable Parquet file ("), "{why}");
    Ok(())
}

#[test]
fn every_kind_of_number_is_that_of_its_decimals() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (parquet, csv) = (named(&folder, "t.parquet"), named(&folder, "t.csv"));
    let floats = [0.1_f32, 1e-20, f32::MAX, 16_777_216.0, f32::MIN_POSITIVE, 1e-45, -2.5e-9, 7.0, 9.3e30];
    let longs = [0, 7, -7, 9_007_199_254_740_993, i64::MAX, i64::MIN, 1, 2, 3];
    let cents = [0, 1, -1, 99, -100, 12_345, i32::MAX, i32::MIN, 5];
    let wide = [0, 1, -1, i128::MAX / 2, 9_007_199_254_740_993, 10_000_000_000, -5, 6, 10_i128.pow(37) + 1];
    let unsigned = [0, u64::MAX, 1 << 63, 3, 4, 5, 6, 7, 8];
    let truths = [true, false, true, true, false, true, true, false, true];
    let columns = vec![
        ("int32 day (DATE)", Cells::Ints(some((0..9).map(|i| START_DAY + i)))),
        ("float f", Cells::Floats(some(floats))),
        ("int64 long", Cells::Longs(some(longs))),
        ("int32 cents (DECIMAL(9,2))", Cells::Ints(some(cents))),
        ("fixed_len_byte_array(16) wide (DECIMAL(38,10))", Cells::Bytes16(some(wide))),
        ("int64 unsigned (UINT_64)", Cells::Longs(some(unsigned.map(|n| n as i64)))),
        ("boolean on", Cells::Truths(some(truths))),
        (
            "double holes",
            Cells::Doubles(vec![
                Some(1.0),
                None,
                Some(f64::NAN),
                Some(4.0),
                None,
                Some(-0.0),
                None,
                Some(1.0),
                Some(9.0),
            ]),
        ),
        ("binary digits (UTF8)", Cells::Texts(some(["1", "2.50", " 3 ", "1e3", "NA", "6", "7", "8", "-9"]))),
    ];
    write(&parquet, columns)?;
    let mut text = "day,f,long,cents,wide,unsigned,on,holes,digits\n".to_owned();
    let holes = ["1", "", "NaN", "4", "", "-0.0", "", "1", "9"];
    let digits = ["1", "2.50", " 3 ", "1e3", "NA", "6", "7", "8", "-9"];
    for i in 0..9 {
        let decimal = |n: i128, scale: usize| {
            let digits = format!("{:0>1$}", n.unsigned_abs(), scale + 1);
            let (whole, rest) = digits.split_at(digits.len() - scale);
            format!("{}{whole}.{rest}", if n < 0 { "-" } else { "" })
        };
        text += &format!(
            "2021-01-{:02} 00:00:00,{:?},{},{},{},{},{},{},{}\n",
            i + 1,
            floats[i],
            longs[i],
            decimal(cents[i].into(), 2),
            decimal(wide[i], 10),
            unsigned[i],
            truths[i],
            holes[i],
            digits[i]
        );
    }
    fs::write(&csv, text)?;
    let options = ReadOptions { fill: Some(Fill::Linear), ..ReadOptions::default() };
    let (a, b) = (read(&parquet, &options)?, read(&csv, &options)?);
    assert_eq!((a.columns(), a.dates()), (b.columns(), b.dates()));
    for ((name, a), b) in a.columns().iter().zip(a.values()).zip(b.values()) {
        let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(a), bits(b), "{name}: {a:?} {b:?}");
    }
    assert_eq!(a.values()[0][0], 0.1, "of the shortest decimals that are the f32");
    Ok(())
}

#[test]
fn dates_are_found_in_every_type() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let parquet = named(&folder, "t.parquet");
    let values = || ("double v", Cells::Doubles(some([1.0, 2.0, 4.0])));
    let dated = |field: &str, cells: Cells<'_>| -> Result<Option<(String, Vec<String>)>> {
        write(&parquet, vec![(field, cells), values()])?;
        let series = read(&parquet, &ReadOptions::default())?;
        let written = |d: &landfall_data::Dates| d.values().iter().map(|date| d.format(*date)).collect();
        Ok(series.dates().map(|d| (d.form().pattern().to_owned(), written(d))))
    };
    let found =
        |pattern: &str, dates: [&str; 3]| Some((pattern.to_owned(), dates.map(str::to_owned).to_vec()));
    let whole = "%Y-%m-%d %H:%M:%S";
    let days = ["1969-12-31 00:00:00", "1970-01-01 00:00:00", "1970-01-02 00:00:00"];
    assert_eq!(dated("int32 d (DATE)", Cells::Ints(some(-1..2)))?, found(whole, days));
    let halves = Cells::Longs(some([START, START + 500, START + 1000]));
    let texts = ["2021-01-01 00:00:00.000", "2021-01-01 00:00:00.500", "2021-01-01 00:00:01.000"];
    assert_eq!(dated("int64 d (TIMESTAMP_MILLIS)", halves)?, found("%Y-%m-%d %H:%M:%S%.3f", texts));
    let micros = Cells::Longs(some([0, 1, 2].map(|i| START * 1000 + i)));
    let texts = ["2021-01-01 00:00:00.000000", "2021-01-01 00:00:00.000001", "2021-01-01 00:00:00.000002"];
    assert_eq!(dated("int64 d (TIMESTAMP_MICROS)", micros)?, found("%Y-%m-%d %H:%M:%S%.6f", texts));
    let texts = ["2021-01-31", "2021-02-28", "2021-03-31"];
    assert_eq!(dated("binary d (UTF8)", Cells::Texts(some(texts)))?, found("%Y-%m-%d", texts));
    let numbers = |n: [i64; 3]| Cells::Longs(some(n));
    assert_eq!(dated("int64 year", numbers([2019, 2020, 2021]))?, found("%Y", ["2019", "2020", "2021"]));
    let seconds = ["1609459200", "1609459260", "1609459320"];
    assert_eq!(
        dated("int64 time", numbers([1_609_459_200, 1_609_459_260, 1_609_459_320]))?,
        found("unix-s", seconds)
    );
    let nanos = ["1609459200000000001", "1609459200000000002", "1609459200000000003"];
    let of = |i| START * 1_000_000 + i;
    assert_eq!(dated("int64 date", numbers([of(1), of(2), of(3)]))?, found("unix-ns", nanos));
    assert_eq!(
        dated("int64 day", numbers([20_210_101, 20_210_102, 20_210_103]))?,
        found("%Y%m%d", ["20210101", "20210102", "20210103"])
    );
    assert_eq!(
        dated("double year", Cells::Doubles(some([2019.0, 2020.0, 2021.0])))?,
        found("%Y", ["2019", "2020", "2021"])
    );
    assert_eq!(dated("int64 lot", numbers([20_210_101, 20_210_102, 20_210_103]))?, None);

    // Parts of a date in columns of their own.
    let parts = vec![
        ("int32 year", Cells::Ints(some([2020, 2020, 2021]))),
        ("int32 month", Cells::Ints(some([11, 12, 1]))),
        values(),
    ];
    write(&parquet, parts)?;
    let series = read(&parquet, &ReadOptions::default())?;
    assert_eq!(series.dates().map(|d| d.form().pattern()), Some("%Y-%m"));

    // A known format must be that of the timestamps.
    write(&parquet, vec![("int64 d (TIMESTAMP_MILLIS)", hours(3)), values()])?;
    let given = |format: &str| ReadOptions { date_format: Some(format.to_owned()), ..ReadOptions::default() };
    for same in [whole, "%F %T", "%Y-%m-%d %H:%M:%S%.3f"] {
        assert_eq!(read(&parquet, &given(same))?.dates().map(|d| d.values().len()), Some(3), "{same}");
    }
    let date_column = Some(vec!["d".to_owned()]);
    let why = refused(&parquet, &ReadOptions { date_column, ..given("%d/%m/%Y") });
    assert!(
        why.starts_with("t.parquet, row 1: column `d`: date `2021-01-01 00:00:00` cannot be read"),
        "{why}"
    );
    Ok(())
}

#[test]
fn mistakes_name_column_row_and_cell() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let parquet = named(&folder, "t.parquet");
    let why = |columns: Vec<(&str, Cells<'_>)>, asked: &[&str]| -> Result<String> {
        write(&parquet, columns)?;
        let columns = (!asked.is_empty()).then(|| asked.iter().map(|&name| name.to_owned()).collect());
        Ok(refused(&parquet, &ReadOptions { columns, ..ReadOptions::default() }))
    };
    let infinite = Cells::Doubles(vec![Some(1.0), None, Some(f64::NEG_INFINITY)]);
    assert_eq!(
        why(vec![("double v", infinite)], &[])?,
        "t.parquet, row 3: column `v`: `-inf` is infinite; correct or clear the cell"
    );
    let texts = Cells::Texts(some(["1", "2", "x"]));
    let not = |text: &str| {
        format!(
            "t.parquet, row 3: column `v`: `{text}` is not a number; correct or clear the cell, or choose others with columns"
        )
    };
    assert_eq!(why(vec![("binary v (UTF8)", texts)], &[])?, not("x"));
    let late = Cells::Longs(vec![None, None, Some(START)]);
    let told =
        why(vec![("int64 d (TIMESTAMP_MILLIS)", hours(3)), ("int64 v (TIMESTAMP_MILLIS)", late)], &["v"])?;
    assert_eq!(told, not("2021-01-01 00:00:00"));
    // A null, and a year that stands for nothing.
    let date = |text: &str| format!("t.parquet, row 2: column `date`: date `{text}` cannot be read");
    let v = || ("double v", Cells::Doubles(some([1.0, 2.0, 4.0])));
    let holes = Cells::Longs(vec![Some(START), None, Some(START + 1)]);
    let told = why(vec![("int64 date (TIMESTAMP_MILLIS)", holes), v()], &[])?;
    assert!(told.starts_with(&date("")), "{told}");
    let told = why(vec![("int32 date (DATE)", Cells::Ints(some([0, -719_162, 1]))), v()], &[])?;
    assert!(told.starts_with(&date("0001-01-01 00:00:00")), "{told}");
    // Beyond every calendar.
    let end = Cells::Longs(some([START, i64::MAX, START + 1]));
    let told = why(vec![("int64 date (TIMESTAMP_MILLIS)", end), v()], &[])?;
    assert!(told.starts_with(&date("9223372036854775807 ms since 1970")), "{told}");
    let same = Cells::Longs(some([START, START, START + 1]));
    let told = why(vec![("int64 date (TIMESTAMP_MILLIS)", same), v()], &[])?;
    assert!(told.starts_with("t.parquet, row 2: date 2021-01-01 00:00:00 stands in row 1 too"), "{told}");
    Ok(())
}

#[test]
fn numbers_and_texts_name_series() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let parquet = named(&folder, "t.parquet");
    let days = || ("int32 day (DATE)", Cells::Ints(some((0..12).map(|i| START_DAY + i / 2))));
    let values = || ("double v", Cells::Doubles(some((0..12).map(|i| f64::from(i * i)))));
    let names = |column: Vec<(&str, Cells<'_>)>, id: &[&str]| -> Result<Vec<String>> {
        write(&parquet, [vec![days(), values()], column].into_iter().flatten().collect())?;
        let series_id = (!id.is_empty()).then(|| id.iter().map(|&name| name.to_owned()).collect());
        let panel = Panel::read(&[&parquet], &ReadOptions { series_id, ..ReadOptions::default() })?;
        Ok(panel.series().iter().map(|s| s.name().to_owned()).collect())
    };
    let stores = || ("int32 store", Cells::Ints(some((0..12).map(|i| 7 + i % 2))));
    assert_eq!(names(vec![stores()], &[])?, ["7", "8"]);
    let texts = Cells::Texts(some((0..12).map(|i| ["x", " z "][i % 2])));
    assert_eq!(names(vec![("binary site (UTF8)", texts)], &[])?, ["x", "z"]);
    let rates = Cells::Floats(some((0..12).map(|i| [0.1, 2.0][i % 2])));
    assert_eq!(names(vec![("float rate", rates), stores()], &["store", "rate"])?, ["7/0.1", "8/2.0"]);
    let prices = Cells::Ints(some((0..12).map(|i| [150, -5][i % 2])));
    assert_eq!(names(vec![("int32 price (DECIMAL(9,2))", prices)], &["price"])?, ["1.50", "-0.05"]);
    Ok(())
}
