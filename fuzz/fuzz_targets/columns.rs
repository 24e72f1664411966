//! No bytes break a builder of columns with any rules; its columns have the length and the kinds of the table.
//! No buffers break the way back: rows of arrays that lie become valid documents or errors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mangonel_bson::{MAX_DEPTH, ObjectId, RawDocument, validate};
use mangonel_columns::rows::{Form, FormField, Layout, Rows, Source};
use mangonel_columns::{Builder, Column, Data, Field, Kind, OnInvalid};

fuzz_target!(|data: &[u8]| {
    let Some((rules, rest)) = data.split_first() else { return };
    if rules & 0x80 != 0 { write_rows(rest) } else { build(*rules, rest) }
});

fn build(rules: u8, data: &[u8]) {
    let on_invalid = [OnInvalid::Raise, OnInvalid::Null, OnInvalid::Text][usize::from(rules & 3) % 3];
    let schema = schema();
    let schema = (rules & 4 != 0).then_some(schema.as_slice());
    let mut builder = Builder::new(schema, on_invalid, usize::from(rules >> 3 & 7));
    if rules & 3 == 3 {
        builder = builder.with_categories().with_null_paths().expect("no column is called so");
    }
    let mut rest = data;
    // The same documents again, so that small inputs meet columns that exist.
    for _ in 0..2 {
        while let Ok((document, after)) = RawDocument::prefix(rest) {
            if builder.push(document).is_err() {
                return;
            }
            rest = after;
        }
        rest = data;
        if rules & 0x40 != 0
            && let Ok(table) = builder.take_chunk()
        {
            check(&table);
        }
    }
    if let Ok(table) = builder.take() {
        check(&table);
    }
}

fn schema() -> Vec<Field> {
    let field = |name: &str, kind| Field { name: name.into(), kind };
    vec![
        field("a", Kind::Double),
        field("b", Kind::List(Box::new(Kind::Struct(vec![field("a", Kind::Uuid), field("d", Kind::Text)])))),
        field("d", Kind::Decimal { precision: 9, scale: 2 }),
        field("_id", Kind::ObjectId),
        field("c", Kind::Category),
    ]
}

fn check(table: &mangonel_columns::Table) {
    for chunk in &table.chunks {
        assert_eq!(chunk.columns().len(), table.fields.len());
        for (column, field) in chunk.columns().iter().zip(&table.fields) {
            assert_eq!(column.kind(), field.kind);
            assert_eq!(column.len(), chunk.rows());
            check_column(column);
        }
    }
}

fn check_column(column: &Column) {
    let len = column.len();
    assert!(column.null_count() <= len);
    if let Some(bits) = column.validity() {
        assert_eq!(bits.len(), len);
        assert_eq!((0..len).filter(|at| !bits.get(*at)).count(), column.null_count());
    }
    match column.data() {
        Data::Null => {}
        Data::Bool(bits) => assert_eq!(bits.len(), len),
        Data::Int32(values) => assert_eq!(values.len(), len),
        Data::Int64(values) => assert_eq!(values.len(), len),
        Data::Double(values) => assert_eq!(values.len(), len),
        Data::Date { millis, .. } => assert_eq!(millis.len(), len),
        Data::ObjectId(values) => assert_eq!(values.len(), len),
        Data::Uuid(values) => assert_eq!(values.len(), len),
        Data::Decimal { values, .. } => assert_eq!(values.len(), len),
        Data::Text(texts) => {
            check_offsets(&texts.offsets, len, texts.bytes.len());
            for at in 0..len {
                std::str::from_utf8(texts.get(at)).expect("text is UTF-8");
            }
        }
        Data::Category(values) => {
            assert_eq!(values.indexes.len(), len);
            let count = values.count();
            assert!(values.indexes.iter().all(|index| (*index as usize) < count.max(1)));
            check_offsets(&values.texts.offsets, count, values.texts.bytes.len());
        }
        Data::Binary(texts) => check_offsets(&texts.offsets, len, texts.bytes.len()),
        Data::List { offsets, items } => {
            check_offsets(offsets, len, items.len());
            check_column(items);
        }
        Data::Struct(fields) => {
            for column in fields.columns() {
                assert_eq!(column.len(), len);
                check_column(column);
            }
        }
    }
}

fn check_offsets(offsets: &[i32], len: usize, end: usize) {
    assert_eq!(offsets.len(), len + 1);
    assert!(offsets.is_sorted() && offsets[0] == 0);
    assert_eq!(offsets[len] as usize, end);
}

/// Columns of every format over the same bytes, with numbers that they hold.
fn write_rows(data: &[u8]) {
    const FORMATS: [&str; 22] = [
        "n",
        "b",
        "c",
        "S",
        "i",
        "L",
        "e",
        "f",
        "g",
        "u",
        "U",
        "vu",
        "z",
        "vz",
        "w:3",
        "d:9,2",
        "d:9,-2,64",
        "tdD",
        "tsn:UTC",
        "tss:",
        "w:12",
        "w:16",
    ];
    let Some((numbers, buffer)) = data.split_first_chunk::<8>() else { return };
    let format = FORMATS[usize::from(numbers[0]) % FORMATS.len()];
    let extension =
        ["pymongoarrow.objectid", "arrow.uuid", "pymongoarrow.decimal128"][usize::from(numbers[1] >> 4) % 3];
    let inner = Form::parse(format, Some((extension, "")), Vec::new(), None).expect("a known format");
    let field = |form| FormField { name: "a".into(), form };
    let form = match numbers[1] & 3 {
        0 => inner,
        1 => Form::parse("+l", None, vec![field(inner)], None).expect("a list"),
        2 => Form::parse("+w:2", None, vec![field(inner)], None).expect("a list"),
        _ => Form::parse("c", None, Vec::new(), Some(inner)).expect("a dictionary"),
    };
    let form = Form::Struct(vec![field(form)]);
    let fake = Fake { numbers, buffer, depth: 0, children: 1 };
    let Ok(rows) = Rows::read(&form, &fake, numbers[2] & 1 == 1) else { return };
    let mut out = Vec::new();
    for row in 0..rows.len().min(50) {
        out.clear();
        if rows.append(row, || ObjectId::from_bytes([7; 12]), &mut out).is_ok() {
            validate(&out, MAX_DEPTH).expect("rows become valid documents");
        }
    }
}

struct Fake<'a> {
    numbers: &'a [u8; 8],
    buffer: &'a [u8],
    depth: usize,
    children: i64,
}

impl<'a> Source<'a> for Fake<'a> {
    fn layout(&self) -> Layout {
        let number = |at: usize| i64::from(self.numbers[at % 8] as i8);
        Layout {
            length: number(3 + self.depth),
            offset: number(6) & 3,
            null_count: number(7) & 1,
            buffers: if self.depth == 0 { 1 } else { number(7) >> 2 & 7 },
            children: if self.depth == 0 { 1 } else { self.children },
        }
    }

    fn buffer(&self, index: usize, bytes: usize) -> Result<Option<&'a [u8]>, String> {
        if index == 0 && self.numbers[7] & 2 != 0 {
            return Ok(None);
        }
        self.buffer
            .get(index.min(self.buffer.len())..)
            .and_then(|rest| rest.get(..bytes))
            .map(Some)
            .ok_or_else(|| "short".into())
    }

    fn child(&self, _: usize) -> Result<Self, String> {
        let children = i64::from(self.depth == 0 && matches!(self.numbers[1] & 3, 1 | 2));
        Ok(Fake { depth: self.depth + 1, children, ..*self })
    }

    fn dictionary(&self) -> Result<Self, String> {
        self.child(0)
    }
}
