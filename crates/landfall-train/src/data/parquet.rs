//! Reads series from a Parquet file: the same table as in a text file, its columns flat and its rows in order.
//!
//! Cells pass through text, as in a CSV: numbers in the shortest digits that read back as the same number, dates and
//! times as `2016-07-01 13:00:00`. So one set of rules says what a date, a missing value or a mistake is. Messages
//! count rows from 1, without a header.

use ::csv::StringRecord;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use chrono::{DateTime, NaiveDateTime};

use super::error::DataError;
use super::panel::Found;
use super::series::Series;
use super::sheet::{ReadOptions, Row, Sheet};
use super::table::assemble;

/// Reads all series of a file.
pub(super) fn parse_all(
    opened: std::fs::File,
    file: &str,
    options: &ReadOptions,
) -> Result<(Vec<Series>, Found), DataError> {
    let bad = |reason: ::parquet::errors::ParquetError| DataError::BadParquet {
        file: file.to_owned(),
        reason: reason.to_string().replace('\n', " "),
    };
    let reader = SerializedFileReader::new(opened).map_err(bad)?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    let names = fields.iter().map(|field| field.name().trim().to_owned()).collect();
    let rows = reader.get_row_iter(None).map_err(bad)?.enumerate().map(|(i, row)| {
        let row = row.map_err(bad)?;
        let cells: StringRecord = row.get_column_iter().map(|(_, field)| text(field)).collect();
        Ok::<_, DataError>(Row { line: i + 1, cells })
    });
    let (file, rows) = (file.to_owned(), rows.collect::<Result<_, _>>()?);
    assemble(Sheet { file, names, rows, separator: None, typed: true, notes: Vec::new() }, options)
}

/// A cell as a text file would have it.
fn text(field: &Field) -> String {
    let dated = |date: Option<NaiveDateTime>| date.map_or_else(|| field.to_string(), |d| d.to_string());
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        // Debug, because the display of the crate rounds.
        Field::Float(x) => format!("{x:?}"),
        Field::Double(x) => format!("{x:?}"),
        Field::Float16(x) => format!("{:?}", f32::from(*x)),
        Field::Date(days) => {
            dated(DateTime::from_timestamp(i64::from(*days) * 86_400, 0).map(|date| date.naive_utc()))
        }
        Field::TimestampMillis(ms) => {
            dated(DateTime::from_timestamp_millis(*ms).map(|date| date.naive_utc()))
        }
        Field::TimestampMicros(us) => {
            dated(DateTime::from_timestamp_micros(*us).map(|date| date.naive_utc()))
        }
        Field::Bool(_)
        | Field::Byte(_)
        | Field::Short(_)
        | Field::Int(_)
        | Field::Long(_)
        | Field::UByte(_)
        | Field::UShort(_)
        | Field::UInt(_)
        | Field::ULong(_)
        | Field::Decimal(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::Bytes(_)
        | Field::Group(_)
        | Field::ListInternal(_)
        | Field::MapInternal(_) => field.to_string(),
    }
}
