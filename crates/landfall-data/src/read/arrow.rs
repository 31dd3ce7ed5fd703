//! Frames of Arrow's arrays, and Arrow files of frames: every library of data frames opens them.

#![allow(clippy::wildcard_enum_match_arm, reason = "Arrow has types that no frame has, and gets more")]

use crate::cells::cell::Cell;
use crate::cells::decimal::{Decimal, shortest};
use crate::error::DataError;
use crate::error::read::ReadError;
use crate::message::one_line;
use crate::read::file_bytes;
use crate::read::frame::Frame;
use crate::read::typed::{Column, Dictionary, MISSING_DATE, TimeUnit, Value, Values};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::writer::FileWriter;
use arrow_ipc::{Block, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit as ArrowUnit};
use std::io::Write;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

/// Seconds of a day.
const DAY: i64 = 86_400;

impl Frame {
    /// The columns of Arrow's batches; `source` is what messages call them. A 32-bit float is the number of its shortest decimals.
    ///
    /// # Errors
    /// [`ReadError::ArrowType`] for a column that holds no numbers, truth values, texts or dates; [`ReadError::BadArrow`] for
    /// batches that the producer cannot give; as [`Frame::new`].
    pub fn of_batches(
        source: &str,
        schema: &Schema,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    ) -> Result<Self, DataError> {
        let mut columns: Vec<Values> = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let none = empty(field.data_type()).ok_or_else(|| {
                DataError::Read(ReadError::ArrowType {
                    file: source.to_owned(),
                    column: field.name().clone(),
                    found: field.data_type().to_string(),
                })
            });
            columns.push(none?);
        }
        for batch in batches {
            let batch = batch.map_err(|e| bad(source, &e))?;
            for (values, array) in columns.iter_mut().zip(batch.columns()) {
                append(values, array);
            }
        }
        let names = schema.fields().iter().map(|field| field.name().clone());
        Self::new(names.zip(columns.into_iter().map(Column::of)).collect())
    }

    /// The table of an Arrow file.
    ///
    /// # Errors
    /// [`ReadError::FileMissing`], [`ReadError::Unreadable`]; as [`Frame::of_batches`].
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let (bytes, source) = (file_bytes(path)?, path.display().to_string());
        // The decoder checks what a file says of its types and of most of its sizes; where it trusts a size that is wrong it panics.
        let decoded = catch_unwind(|| decoded(&Buffer::from_vec(bytes))).unwrap_or_else(|_| Err(damaged()));
        let (schema, batches) = decoded.map_err(|e| bad(&source, &e))?;
        Self::of_batches(&source, &schema, batches.into_iter().map(Ok))
    }

    /// Writes an Arrow file (IPC, without compression), which [`Frame::read`] reads and so do pandas (`read_feather`) and
    /// polars (`read_ipc`).
    ///
    /// # Errors
    /// [`ReadError::BadArrow`].
    pub fn write_arrow(&self, to: impl Write) -> Result<(), DataError> {
        let failed = |e: ArrowError| bad("the frame", &e);
        let arrays: Vec<ArrayRef> = self
            .columns()
            .iter()
            .map(|(_, column)| array(column))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        let field = |((name, _), array): (&(String, Column), &ArrayRef)| {
            Field::new(name, array.data_type().clone(), true)
        };
        let schema = Arc::new(Schema::new(self.columns().iter().zip(&arrays).map(field).collect::<Vec<_>>()));
        let mut writer = FileWriter::try_new(to, &schema).map_err(failed)?;
        let batch = RecordBatch::try_new(schema, arrays).map_err(failed)?;
        writer.write(&batch).and_then(|()| writer.finish()).map_err(failed)
    }
}

/// The batches of a file, no part of which lies outside of it.
fn decoded(file: &Buffer) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let trailer = file.len().checked_sub(10).ok_or_else(damaged)?;
    let end: [u8; 10] = file.as_slice()[trailer..].try_into().map_err(|_| damaged())?;
    let start = trailer.checked_sub(read_footer_length(end)?).ok_or_else(damaged)?;
    let footer = root_as_footer(&file.as_slice()[start..trailer]).map_err(|_| damaged())?;
    let schema: SchemaRef = Arc::new(try_fb_to_schema(footer.schema().ok_or_else(damaged)?)?);
    let mut decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
    for block in footer.dictionaries().iter().flatten() {
        decoder.read_dictionary(block, &message(file, block)?)?;
    }
    let mut batches = Vec::new();
    for block in footer.recordBatches().iter().flatten() {
        batches.extend(decoder.read_record_batch(block, &message(file, block)?)?);
    }
    Ok((schema, batches))
}

/// A message of a file, with its body. No buffer that it describes lies outside of its body.
fn message(file: &Buffer, block: &Block) -> Result<Buffer, ArrowError> {
    let size = |n: i64| usize::try_from(n).map_err(|_| damaged());
    let (offset, head, body) =
        (size(block.offset())?, size(block.metaDataLength().into())?, size(block.bodyLength())?);
    let length = head.checked_add(body).ok_or_else(damaged)?;
    if offset.checked_add(length).is_none_or(|end| end > file.len()) {
        return Err(damaged());
    }
    let data = file.slice_with_length(offset, length);
    let described = data.as_slice().get(..head).ok_or_else(damaged)?;
    // Files of before version 0.15 have no mark before the length.
    let skipped = if described.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = root_as_message(described.get(skipped..).ok_or_else(damaged)?).map_err(|_| damaged())?;
    let batch = message.header_as_record_batch();
    let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data());
    for buffer in batch.and_then(|batch| batch.buffers()).iter().flatten() {
        if size(buffer.offset())?.checked_add(size(buffer.length())?).is_none_or(|end| end > body) {
            return Err(damaged());
        }
    }
    Ok(data)
}

fn damaged() -> ArrowError {
    ArrowError::IpcError("its sizes are not those of the file".to_owned())
}

fn bad(source: &str, reason: &ArrowError) -> DataError {
    DataError::Read(ReadError::BadArrow { file: source.to_owned(), reason: one_line(&reason.to_string()) })
}

/// A column of no rows that takes values of a type; `None` for a type that has no place in a frame.
fn empty(of: &DataType) -> Option<Values> {
    let dates = |unit, utc| Values::Dates { counts: Vec::new(), unit, utc };
    Some(match of {
        DataType::Null | DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            Values::Numbers(Vec::new())
        }
        DataType::Boolean => Values::Booleans(Vec::new()),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32 => Values::Integers(Vec::new()),
        // Some are larger than any integer with a sign.
        DataType::UInt64 | DataType::Decimal128(_, 0..) => Values::Cells(Vec::new()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Values::Texts(Dictionary::default()),
        DataType::Dictionary(_, of) if is_text(of) => Values::Texts(Dictionary::default()),
        DataType::Date32 => dates(TimeUnit::Second, false),
        DataType::Date64 => dates(TimeUnit::Millisecond, false),
        DataType::Timestamp(unit, zone) => {
            let unit = match unit {
                ArrowUnit::Second => TimeUnit::Second,
                ArrowUnit::Millisecond => TimeUnit::Millisecond,
                ArrowUnit::Microsecond => TimeUnit::Microsecond,
                ArrowUnit::Nanosecond => TimeUnit::Nanosecond,
            };
            dates(unit, zone.is_some())
        }
        _ => return None,
    })
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Adds the rows of an array to a column of its type.
fn append(to: &mut Values, array: &ArrayRef) {
    match to {
        Values::Numbers(values) => match array.data_type() {
            DataType::Float16 => {
                values.extend(
                    array
                        .as_primitive::<Float16Type>()
                        .iter()
                        .map(|x| x.map_or(f64::NAN, |x| shortest(x.into()))),
                );
            }
            DataType::Float32 => {
                values
                    .extend(array.as_primitive::<Float32Type>().iter().map(|x| x.map_or(f64::NAN, shortest)));
            }
            DataType::Float64 if array.null_count() == 0 => {
                values.extend_from_slice(array.as_primitive::<Float64Type>().values());
            }
            DataType::Float64 => {
                values.extend(array.as_primitive::<Float64Type>().iter().map(|x| x.unwrap_or(f64::NAN)));
            }
            _ => values.resize(values.len() + array.len(), f64::NAN),
        },
        Values::Integers(values) => integers(values, array),
        Values::Booleans(values) => values.extend(array.as_boolean().iter()),
        Values::Texts(texts) => append_texts(texts, array),
        Values::Dates { counts, .. } => append_dates(counts, array),
        Values::Cells(cells) => append_numerals(cells, array),
    }
}

fn integers(values: &mut Vec<Option<i64>>, array: &ArrayRef) {
    fn widen<T: ArrowPrimitiveType<Native: Into<i64>>>(values: &mut Vec<Option<i64>>, array: &ArrayRef) {
        values.extend(array.as_primitive::<T>().iter().map(|n| n.map(Into::into)));
    }
    match array.data_type() {
        DataType::Int8 => widen::<Int8Type>(values, array),
        DataType::Int16 => widen::<Int16Type>(values, array),
        DataType::Int32 => widen::<Int32Type>(values, array),
        DataType::UInt8 => widen::<UInt8Type>(values, array),
        DataType::UInt16 => widen::<UInt16Type>(values, array),
        DataType::UInt32 => widen::<UInt32Type>(values, array),
        _ => widen::<Int64Type>(values, array),
    }
}

fn append_texts(texts: &mut Dictionary, array: &ArrayRef) {
    match array.data_type() {
        DataType::LargeUtf8 => array.as_string::<i64>().iter().for_each(|text| texts.push(text)),
        DataType::Utf8View => array.as_string_view().iter().for_each(|text| texts.push(text)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // The texts are looked up once each, not once a row.
            let mut own = Dictionary::default();
            append_texts(&mut own, dictionary.values());
            let place = |code: &u32| match own.different.get(*code as usize) {
                Some(text) => texts.code(text),
                None => Dictionary::MISSING,
            };
            let codes: Vec<u32> = own.codes.iter().map(place).collect();
            let keys = dictionary.normalized_keys();
            let missing = |row: usize| dictionary.keys().is_null(row);
            let of = |(row, key): (usize, usize)| match codes.get(key) {
                Some(code) if !missing(row) => *code,
                Some(_) | None => Dictionary::MISSING,
            };
            texts.codes.extend(keys.into_iter().enumerate().map(of));
        }
        _ => array.as_string::<i32>().iter().for_each(|text| texts.push(text)),
    }
}

fn append_dates(counts: &mut Vec<i64>, array: &ArrayRef) {
    fn stamps<T: ArrowPrimitiveType<Native = i64>>(counts: &mut Vec<i64>, array: &ArrayRef) {
        counts.extend(array.as_primitive::<T>().iter().map(|count| count.unwrap_or(MISSING_DATE)));
    }
    match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().iter();
            counts.extend(days.map(|day| day.map_or(MISSING_DATE, |day| i64::from(day) * DAY)));
        }
        DataType::Date64 => stamps::<Date64Type>(counts, array),
        DataType::Timestamp(ArrowUnit::Second, _) => stamps::<TimestampSecondType>(counts, array),
        DataType::Timestamp(ArrowUnit::Millisecond, _) => stamps::<TimestampMillisecondType>(counts, array),
        DataType::Timestamp(ArrowUnit::Microsecond, _) => stamps::<TimestampMicrosecondType>(counts, array),
        _ => stamps::<TimestampNanosecondType>(counts, array),
    }
}

/// Numbers that fit no integer with a sign of 64 bits.
fn append_numerals(cells: &mut Vec<Value>, array: &ArrayRef) {
    let cell = |number: Option<Decimal>| Value::Typed(number.map_or(Cell::Empty, Cell::Decimal));
    if let DataType::Decimal128(_, scale) = array.data_type() {
        let scale = u32::try_from(*scale).unwrap_or_default();
        let decimal = |n: Option<i128>| n.and_then(|n| Decimal::new(n, scale));
        cells.extend(array.as_primitive::<Decimal128Type>().iter().map(decimal).map(cell));
    } else {
        let integer = |n: u64| {
            i64::try_from(n)
                .map_or_else(|_| Decimal::new(n.into(), 0).map(Cell::Decimal), |n| Some(Cell::Integer(n)))
        };
        let of = |n: Option<u64>| Value::Typed(n.and_then(integer).unwrap_or(Cell::Empty));
        cells.extend(array.as_primitive::<UInt64Type>().iter().map(of));
    }
}

/// The array of a column.
fn array(column: &Column) -> Result<ArrayRef, ArrowError> {
    Ok(match column.values() {
        Values::Numbers(values) if values.iter().any(|x| x.is_nan()) => {
            Arc::new(values.iter().map(|x| (!x.is_nan()).then_some(*x)).collect::<Float64Array>())
        }
        Values::Numbers(values) => Arc::new(Float64Array::from_iter_values(values.iter().copied())),
        Values::Integers(values) => Arc::new(values.iter().copied().collect::<Int64Array>()),
        Values::Booleans(values) => Arc::new(values.iter().copied().collect::<BooleanArray>()),
        Values::Texts(texts) => {
            let keys = texts.codes.iter().map(|code| i32::try_from(*code).ok()).collect::<Int32Array>();
            let values = StringArray::from_iter_values(&texts.different);
            Arc::new(DictionaryArray::try_new(keys, Arc::new(values))?)
        }
        Values::Dates { counts, unit, utc } => {
            let counts = counts.iter().map(|count| (*count != MISSING_DATE).then_some(*count));
            let zone: Option<Arc<str>> = utc.then(|| "UTC".into());
            match unit {
                TimeUnit::Second => {
                    Arc::new(counts.collect::<TimestampSecondArray>().with_timezone_opt(zone))
                }
                TimeUnit::Millisecond => {
                    Arc::new(counts.collect::<TimestampMillisecondArray>().with_timezone_opt(zone))
                }
                TimeUnit::Microsecond => {
                    Arc::new(counts.collect::<TimestampMicrosecondArray>().with_timezone_opt(zone))
                }
                TimeUnit::Nanosecond => {
                    Arc::new(counts.collect::<TimestampNanosecondArray>().with_timezone_opt(zone))
                }
            }
        }
        Values::Cells(_) => {
            let texts = (0..column.rows()).map(|row| Some(column.cell(row)).filter(|c| !c.is_empty()));
            let texts: Vec<_> = texts.map(|cell| cell.map(|cell| cell.text().into_owned())).collect();
            Arc::new(StringArray::from_iter(texts))
        }
    })
}
