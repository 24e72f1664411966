//! Rows of the codec: documents of an application's shapes, read, checked, written, and as extended JSON.

use std::hint::black_box;

use mangonel_bson::{
    JsonMode, MAX_DEPTH, ObjectId, RawDocument, RawElement, RawValue, append_value, begin_document,
    end_document, parse_json, validate, write_json,
};

use crate::documents::{deep, flat, user};

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
        for (mode, shown) in [(JsonMode::Plain, "plain"), (JsonMode::Relaxed, "relaxed")] {
            row(&format!("{shown}_json_{name}"), &mut || {
                out.clear();
                write_json(black_box(document), mode, &mut out).unwrap();
            });
        }
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
