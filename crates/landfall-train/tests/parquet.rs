//! A Parquet file reads as the same table in a CSV does.
#![cfg(feature = "parquet")]

use landfall_train::data::{Fill, Panel, ReadOptions};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const SCHEMA: &str = "message table {
    required binary site (UTF8);
    required int64 date (TIMESTAMP_MILLIS);
    optional double load;
    required int64 count;
}";

/// 2021-01-01 00:00:00 in milliseconds.
const START: i64 = 1_609_459_200_000;

fn write(path: &Path, sites: &[&str], loads: &[Option<f64>]) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let compression = parquet::basic::Compression::SNAPPY;
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(fs::File::create(path)?, schema, properties)?;
    let mut group = writer.next_row_group()?;
    let rows = sites.len() as i64;
    let mut columns = 0;
    while let Some(mut column) = group.next_column()? {
        match columns {
            0 => {
                let sites: Vec<ByteArray> = sites.iter().map(|&s| s.into()).collect();
                column.typed::<ByteArrayType>().write_batch(&sites, None, None)?;
            }
            1 => {
                let dates: Vec<i64> = (0..rows).map(|i| START + i * 3_600_000).collect();
                column.typed::<Int64Type>().write_batch(&dates, None, None)?;
            }
            2 => {
                let known: Vec<f64> = loads.iter().copied().flatten().collect();
                let levels: Vec<i16> = loads.iter().map(|l| i16::from(l.is_some())).collect();
                column.typed::<DoubleType>().write_batch(&known, Some(&levels), None)?;
            }
            _ => {
                column.typed::<Int64Type>().write_batch(&(0..rows).collect::<Vec<_>>(), None, None)?;
            }
        }
        column.close()?;
        columns += 1;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

#[test]
fn the_same_table_gives_the_same_series() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (parquet, csv) = (folder.path().join("t.parquet"), folder.path().join("t.csv"));
    let sites = ["x", "x", "x", "z", "z"];
    let loads = [Some(0.1), None, Some(1e-300), Some(-3.0), Some(f64::MAX)];
    write(&parquet, &sites, &loads)?;
    let mut text = "site,date,load,count\n".to_owned();
    for (i, (site, load)) in sites.iter().zip(loads).enumerate() {
        let load = load.map_or(String::new(), |l| format!("{l:?}"));
        text += &format!("{site},2021-01-01 {i:02}:00:00,{load},{i}\n");
    }
    fs::write(&csv, text)?;
    let refused = |path: &Path| Panel::read(&[path], &ReadOptions::default()).expect_err("text").to_string();

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
    assert!(refused(&parquet).contains("t.parquet: not a readable Parquet file ("), "{}", refused(&parquet));
    Ok(())
}
