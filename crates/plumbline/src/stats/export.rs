//! Export of the complete records to an Apache Parquet file.
//!
//! Each field of a record is a column of the same name; unknown values are null. Numbers are
//! unsigned integers of 64 bits. Keywords and names are text, escaped as in the journal. The file
//! is written beside its destination, and renamed when it is complete.

use anyhow::{Context, Result, bail};
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use records::store::{Filter, Store};
use records::transfer::{Field, FieldKind, SCHEMA, Transfer, Value};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Number of rows that are kept in memory until they are written together.
const GROUP_ROWS: usize = 32_768;

/// One column of a row group: the definition level of each row (1 with a value, 0 for null), and
/// the values.
struct Column {
    number: u32,
    name: &'static str,
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Number(Vec<i64>),
    Flag(Vec<bool>),
    Text(Vec<ByteArray>),
}

/// Writes the transfers of `filter` to `file`, and returns their number.
pub(super) fn parquet(store: &Store, filter: &Filter, file: &Path) -> Result<u64> {
    let Some(name) = file.file_name() else { bail!("not a file name") };
    let mut temporary_path = name.to_owned();
    temporary_path.push(format!(".{}.part", std::process::id()));
    let temporary_path = file.with_file_name(temporary_path);
    let result = write(store, filter, &temporary_path).and_then(|count| {
        std::fs::rename(&temporary_path, file)?;
        Ok(count)
    });
    if result.is_err() {
        // The file may not exist.
        _ = std::fs::remove_file(&temporary_path);
    }
    result
}

fn write(store: &Store, filter: &Filter, part: &Path) -> Result<u64> {
    let output = File::create_new(part)?;
    let mut columns = columns();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("plumbline ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(output, schema(&columns)?, Arc::new(properties))?;
    let mut rows = 0;
    let mut row_count = 0_u64;
    store.for_each(filter, |_, transfer| -> Result<()> {
        push(&mut columns, &transfer);
        rows += 1;
        row_count += 1;
        if rows == GROUP_ROWS {
            write_group(writer.next_row_group()?, &mut columns)?;
            rows = 0;
        }
        Ok(())
    })?;
    if rows > 0 {
        write_group(writer.next_row_group()?, &mut columns)?;
    }
    writer.into_inner()?.sync_all().context("cannot sync the file to the disk")?;
    Ok(row_count)
}

/// Returns the columns of the schema number, of the identifier, and of every field.
fn columns() -> Vec<Column> {
    let leading_fields =
        [(u32::MAX, "schema", FieldKind::Number), (0, "record_id", FieldKind::Identifier)];
    let fields = leading_fields.iter().chain(Transfer::FIELDS);
    let column = |(number, name, kind): &(u32, &'static str, FieldKind)| {
        let values = match kind {
            FieldKind::Number => Values::Number(Vec::new()),
            FieldKind::Flag => Values::Flag(Vec::new()),
            FieldKind::Enum | FieldKind::Identifier | FieldKind::Address | FieldKind::Text => {
                Values::Text(Vec::new())
            }
        };
        Column { number: *number, name, levels: Vec::new(), values }
    };
    fields.map(column).collect()
}

fn schema(columns: &[Column]) -> Result<Arc<Type>, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.values {
            Values::Number(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Values::Flag(_) => (Physical::BOOLEAN, None),
            Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let builder = Type::primitive_type_builder(column.name, physical);
        let builder = builder.with_repetition(Repetition::OPTIONAL);
        builder
            .with_logical_type(logical)
            .with_converted_type(ConvertedType::NONE)
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("transfer").with_fields(fields).build().map(Arc::new)
}

fn push(columns: &mut [Column], transfer: &Transfer) {
    let mut columns = columns.iter_mut();
    let mut push = |number: u32, value: Value<'_>| {
        // Values come in the order of the columns. The columns in between have none in this row.
        for column in columns.by_ref() {
            let is_found = column.number == number;
            column.levels.push(is_found.into());
            if is_found {
                column.values.push(value);
                return;
            }
        }
    };
    push(u32::MAX, Value::Number(SCHEMA));
    push(0, transfer.record_id.value());
    transfer.visit(|number, _, value| push(number, value));
    for column in columns {
        column.levels.push(0);
    }
}

impl Values {
    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Number(numbers), Value::Number(number)) => numbers.push(number.cast_signed()),
            (Self::Flag(flags), Value::Flag(flag)) => flags.push(flag),
            (Self::Number(numbers), _) => numbers.push(0),
            (Self::Flag(flags), _) => flags.push(false),
            (Self::Text(texts), value) => {
                texts.push(ByteArray::from(value.to_string().into_bytes()));
            }
        }
    }
}

fn write_group<W: Write + Send>(
    mut group: SerializedRowGroupWriter<'_, W>,
    columns: &mut [Column],
) -> Result<()> {
    for column in columns {
        let mut writer = group.next_column()?.context("missing column")?;
        let levels = Some(column.levels.as_slice());
        match &mut column.values {
            Values::Number(numbers) => {
                writer.typed::<Int64Type>().write_batch(numbers, levels, None)?;
                numbers.clear();
            }
            Values::Flag(flags) => {
                writer.typed::<BoolType>().write_batch(flags, levels, None)?;
                flags.clear();
            }
            Values::Text(texts) => {
                writer.typed::<ByteArrayType>().write_batch(texts, levels, None)?;
                texts.clear();
            }
        }
        column.levels.clear();
        writer.close()?;
    }
    group.close()?;
    Ok(())
}
