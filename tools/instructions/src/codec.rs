//! Rows of the codec: documents of an application's shapes, read, checked, written, and as extended JSON.

use std::hint::black_box;

use mangonel_bson::{
    JsonMode, MAX_DEPTH, ObjectId, RawDocument, RawElement, RawValue, append_bool, append_datetime,
    append_double, append_i32, append_i64, append_null, append_object_id, append_str, append_value,
    begin_array, begin_document, begin_subdocument, end_document, parse_json, validate, write_json,
};

/// Plays every row.
pub fn play(row: &mut dyn FnMut(&str, &mut dyn FnMut())) {
    for (name, bytes) in [("user", user()), ("flat", flat()), ("deep", deep(6))] {
        let document = RawDocument::from_bytes(&bytes).unwrap();
        row(&format!("iterate_{name}"), &mut || walk(black_box(document)));
        row(&format!("validate_{name}"), &mut || validate(black_box(&bytes), MAX_DEPTH).unwrap());
        row(&format!("get_absent_{name}"), &mut || {
            black_box(black_box(document).get(black_box("absent")).unwrap());
        });
        let mut out = Vec::with_capacity(bytes.len() * 8);
        row(&format!("copy_{name}"), &mut || {
            out.clear();
            let start = begin_document(&mut out);
            for element in black_box(document) {
                let RawElement { key, value } = element.unwrap();
                append_value(&mut out, key, value);
            }
            end_document(&mut out, start);
        });
        row(&format!("relaxed_json_{name}"), &mut || {
            out.clear();
            write_json(black_box(document), JsonMode::Relaxed, &mut out).unwrap();
        });
        let text = String::from_utf8(out.clone()).unwrap();
        row(&format!("parse_json_{name}"), &mut || {
            black_box(parse_json(black_box(&text)).unwrap());
        });
    }
    row("write_user", &mut || {
        black_box(user());
    });
    let id = ObjectId::from_parts(1_700_000_000, [1, 2, 3, 4, 5], 77);
    row("object_id_hex", &mut || {
        black_box(black_box(id).to_string());
    });
}

fn walk(document: RawDocument<'_>) {
    for element in document {
        let element = element.unwrap();
        match element.value {
            RawValue::Document(inner) => walk(inner),
            RawValue::Array(inner) => walk(inner.as_document()),
            value => {
                black_box((element.key, value));
            }
        }
    }
}

/// Builds a document.
pub fn document(build: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_document(&mut out);
    build(&mut out);
    end_document(&mut out, start);
    out
}

/// A typical record of an application.
pub fn user() -> Vec<u8> {
    document(|out| {
        append_object_id(out, "_id", ObjectId::from_parts(1_700_000_000, [1, 2, 3, 4, 5], 77));
        append_str(out, "name", "Ada Lovelace");
        append_str(out, "email", "ada@example.org");
        append_i32(out, "age", 36);
        append_bool(out, "is_active", true);
        append_double(out, "score", 98.25);
        append_datetime(out, "created", 1_700_000_000_123);
        append_null(out, "deleted");
        let tags = begin_array(out, "tags");
        for (place, tag) in ["math", "engines", "poetry"].iter().enumerate() {
            append_str(out, ["0", "1", "2"][place], tag);
        }
        end_document(out, tags);
        let home = begin_subdocument(out, "address");
        append_str(out, "city", "London");
        append_i64(out, "zip", 10_115);
        end_document(out, home);
    })
}

fn flat() -> Vec<u8> {
    document(|out| {
        for number in 0..48 {
            append_str(out, &format!("field_{number}_text"), &format!("some value of field {number}"));
            append_i32(out, &format!("field_{number}_int"), number * 1001);
            append_double(out, &format!("field_{number}_double"), f64::from(number) * 1.618);
        }
    })
}

fn deep(levels: usize) -> Vec<u8> {
    fn level(out: &mut Vec<u8>, levels: usize) {
        for key in ["left", "right"] {
            if levels == 0 {
                append_str(out, key, "leaf");
            } else {
                let start = begin_subdocument(out, key);
                level(out, levels - 1);
                end_document(out, start);
            }
        }
    }
    document(|out| level(out, levels))
}
