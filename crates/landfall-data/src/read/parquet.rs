//! Reads series from a Parquet file: the same table as in a text file, its columns flat and its rows in order.
//!
//! Cells keep the types of their columns, and one set of rules says of text and types alike what a date, a missing value
//! or a mistake is. A table gives the same series as the CSV of it: an f32 is the number of its shortest decimals, and
//! dates and times are written as `2016-07-01 13:00:00`. Messages count rows from 1, without a header.

use crate::error::read::ReadError;
use ::parquet::data_type::Decimal as ParquetDecimal;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use chrono::{DateTime, Utc};

use crate::cells::cell::{Cell, Float};
use crate::cells::decimal::{Decimal, shortest};
use crate::error::DataError;
use crate::read::frame::Frame;
use crate::read::options::ReadOptions;
use crate::read::table::assemble;
use crate::read::typed::{Column, Value, Values};
use crate::series::Series;
use crate::series::found::Found;

/// Reads all series of a file.
pub(crate) fn parse_all(
    opened: std::fs::File,
    file: &str,
    options: &ReadOptions,
) -> Result<(Vec<Series>, Found), DataError> {
    let bad = |reason: ::parquet::errors::ParquetError| {
        DataError::Read(ReadError::BadParquet {
            file: file.to_owned(),
            reason: reason.to_string().replace('\n', " "),
        })
    };
    let reader = SerializedFileReader::new(opened).map_err(bad)?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    let names: Vec<String> = fields.iter().map(|field| field.name().trim().to_owned()).collect();
    let mut columns: Vec<Vec<Value>> = names.iter().map(|_| Vec::new()).collect();
    for row in reader.get_row_iter(None).map_err(bad)? {
        let fields = row.map_err(bad)?.into_columns();
        columns.iter_mut().zip(fields).for_each(|(column, (_, field))| column.push(value(field)));
    }
    let columns = columns.into_iter().map(|cells| Column::of(Values::Cells(cells)));
    assemble(Frame::of_columns(names.into_iter().zip(columns).collect()).sheet(file), options)
}

/// A cell as tables hold it. What is no number, text or time is the text that the reader makes of it.
fn value(field: Field) -> Value {
    let integer = |n: i64| Value::Typed(Cell::Integer(n));
    let float = |x: f64| Value::Typed(Cell::Float(Float(x)));
    match field {
        Field::Null => Value::Typed(Cell::Empty),
        Field::Bool(yes) => Value::Typed(Cell::Boolean(yes)),
        Field::Byte(n) => integer(n.into()),
        Field::Short(n) => integer(n.into()),
        Field::Int(n) => integer(n.into()),
        Field::Long(n) => integer(n),
        Field::UByte(n) => integer(n.into()),
        Field::UShort(n) => integer(n.into()),
        Field::UInt(n) => integer(n.into()),
        Field::ULong(n) => match i64::try_from(n) {
            Ok(n) => integer(n),
            Err(_) => number_or_text(Decimal::new(n.into(), 0), &field),
        },
        Field::Float16(x) => float(shortest(x.into())),
        Field::Float(x) => float(shortest(x)),
        Field::Double(x) => float(x),
        Field::Decimal(ref number) => number_or_text(decimal(number), &field),
        Field::Str(text) => Value::Text(text.into()),
        Field::Date(days) => time(DateTime::from_timestamp(i64::from(days) * 86_400, 0), days.into(), "days"),
        Field::TimestampMillis(ms) => time(DateTime::from_timestamp_millis(ms), ms, "ms"),
        Field::TimestampMicros(us) => time(DateTime::from_timestamp_micros(us), us, "us"),
        Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::Bytes(_)
        | Field::Group(_)
        | Field::ListInternal(_)
        | Field::MapInternal(_) => Value::Text(field.to_string().into()),
    }
}

fn number_or_text(number: Option<Decimal>, field: &Field) -> Value {
    number.map_or_else(|| Value::Text(field.to_string().into()), |number| Value::Typed(Cell::Decimal(number)))
}

/// `None` for a number of more than 128 bits.
fn decimal(number: &ParquetDecimal) -> Option<Decimal> {
    let bytes = number.data();
    let sign = if bytes.first().is_some_and(|first| first >> 7 == 1) { 0xff } else { 0 };
    let mut all = [sign; 16];
    all.get_mut(16_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Decimal::new(i128::from_be_bytes(all), u32::try_from(number.scale()).ok()?)
}

/// A time; text for one beyond the calendar.
fn time(time: Option<DateTime<Utc>>, since_1970: i64, unit: &str) -> Value {
    match time {
        Some(time) => Value::Typed(Cell::Time(time.naive_utc())),
        None => Value::Text(format!("{since_1970} {unit} since 1970").into()),
    }
}
