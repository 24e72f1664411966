//! Documents of every shape: written documents are valid, are read back unchanged, and survive canonical extended JSON.

use mangonel_bson::*;
use proptest::prelude::*;

/// A generated value; the crate itself has no such tree.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(Leaf),
    Document(Vec<(String, Tree)>),
    Array(Vec<Tree>),
    Code(String, Vec<(String, Tree)>),
}

#[derive(Clone, Debug)]
enum Leaf {
    Double(f64),
    String(String),
    Binary(u8, Vec<u8>),
    Undefined,
    ObjectId([u8; 12]),
    Boolean(bool),
    DateTime(i64),
    Null,
    Regex(String, String),
    DbPointer(String, [u8; 12]),
    JavaScript(String),
    Symbol(String),
    Int32(i32),
    Timestamp(u32, u32),
    Int64(i64),
    Decimal128(bool, u128, i32),
    MinKey,
    MaxKey,
}

/// Without a leading dollar sign: `{"$oid": 1}` means something else in extended JSON.
const KEY: &str = "[^\0$][^\0]{0,40}|";

fn leaf() -> impl Strategy<Value = Leaf> {
    prop_oneof![
        any::<f64>().prop_filter("NaN differs from itself", |n| !n.is_nan()).prop_map(Leaf::Double),
        any::<i32>().prop_map(|n| Leaf::Double(f64::from(n))),
        any::<String>().prop_map(Leaf::String),
        "[\u{0}-\u{7F}]{0,80}".prop_map(Leaf::String),
        (any::<u8>(), any::<Vec<u8>>()).prop_map(|(subtype, bytes)| Leaf::Binary(subtype, bytes)),
        Just(Leaf::Undefined),
        any::<[u8; 12]>().prop_map(Leaf::ObjectId),
        any::<bool>().prop_map(Leaf::Boolean),
        any::<i64>().prop_map(Leaf::DateTime),
        (0..253_402_300_800_000i64).prop_map(Leaf::DateTime),
        Just(Leaf::Null),
        ("[^\0]{0,20}", "i?l?m?s?u?x?").prop_map(|(p, o)| Leaf::Regex(p, o)),
        (any::<String>(), any::<[u8; 12]>()).prop_map(|(n, id)| Leaf::DbPointer(n, id)),
        any::<String>().prop_map(Leaf::JavaScript),
        any::<String>().prop_map(Leaf::Symbol),
        any::<i32>().prop_map(Leaf::Int32),
        any::<(u32, u32)>().prop_map(|(t, i)| Leaf::Timestamp(t, i)),
        any::<i64>().prop_map(Leaf::Int64),
        (any::<bool>(), 0..10u128.pow(34), -6176..=6111).prop_map(|(s, c, e)| Leaf::Decimal128(s, c, e)),
        Just(Leaf::MinKey),
        Just(Leaf::MaxKey),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    leaf().prop_map(Tree::Leaf).prop_recursive(4, 40, 8, |inner| {
        let members = prop::collection::vec((KEY, inner.clone()), 0..8);
        prop_oneof![
            members.clone().prop_map(Tree::Document),
            prop::collection::vec(inner, 0..12).prop_map(Tree::Array),
            (any::<String>(), members).prop_map(|(code, scope)| Tree::Code(code, scope)),
        ]
    })
}

fn document() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((KEY, tree()), 0..10).prop_map(|members| {
        let mut out = Vec::new();
        let start = begin_document(&mut out);
        append_members(&mut out, &members);
        end_document(&mut out, start);
        out
    })
}

/// Documents that mostly have the same keys in the same order, with values that are written in a way of their own.
fn similar_documents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let keys = ["_id", "title", "created", "fourteen_bytes", "fifteen_letters", "a\"b", "é", "", "n"];
    let usual = prop_oneof![
        any::<[u8; 12]>().prop_map(Leaf::ObjectId),
        "[ -~]{0,70}".prop_map(Leaf::String),
        (0..200_000_000i64).prop_map(Leaf::DateTime),
        any::<i32>().prop_map(Leaf::Int32),
        any::<i64>().prop_map(Leaf::Int64),
        any::<bool>().prop_map(Leaf::Boolean),
        Just(Leaf::Null),
    ];
    let value = prop_oneof![4 => usual.prop_map(Tree::Leaf), 1 => tree()];
    let elements = prop::collection::vec((value, 0..12), keys.len());
    prop::collection::vec(elements, 0..8).prop_map(move |documents| {
        let build = |elements: Vec<(Tree, i32)>| {
            let mut out = Vec::new();
            let start = begin_document(&mut out);
            for (key, (value, chance)) in keys.iter().zip(&elements) {
                match chance {
                    0 => {}
                    1 => append_tree(&mut out, "another", value),
                    _ => append_tree(&mut out, key, value),
                }
            }
            end_document(&mut out, start);
            out
        };
        documents.into_iter().map(build).collect()
    })
}

fn append_members(out: &mut Vec<u8>, members: &[(String, Tree)]) {
    for (key, value) in members {
        append_tree(out, key, value);
    }
}

fn append_tree(out: &mut Vec<u8>, key: &str, tree: &Tree) {
    match tree {
        Tree::Leaf(leaf) => append_leaf(out, key, leaf),
        Tree::Document(members) => {
            let start = begin_subdocument(out, key);
            append_members(out, members);
            end_document(out, start);
        }
        Tree::Array(values) => {
            let start = begin_array(out, key);
            for (i, value) in values.iter().enumerate() {
                append_tree(out, &i.to_string(), value);
            }
            end_document(out, start);
        }
        Tree::Code(code, scope) => {
            let (start, inner) = begin_javascript_with_scope(out, key, code);
            append_members(out, scope);
            end_document(out, inner);
            end_javascript_with_scope(out, start);
        }
    }
}

fn append_leaf(out: &mut Vec<u8>, key: &str, leaf: &Leaf) {
    match leaf {
        Leaf::Double(value) => append_double(out, key, *value),
        Leaf::String(text) => append_str(out, key, text),
        Leaf::Binary(subtype, bytes) => append_binary(out, key, *subtype, bytes),
        Leaf::Undefined => append_undefined(out, key),
        Leaf::ObjectId(bytes) => append_object_id(out, key, ObjectId::from_bytes(*bytes)),
        Leaf::Boolean(value) => append_bool(out, key, *value),
        Leaf::DateTime(ms) => append_datetime(out, key, *ms),
        Leaf::Null => append_null(out, key),
        Leaf::Regex(pattern, options) => append_regex(out, key, pattern, options),
        Leaf::DbPointer(namespace, id) => {
            append_db_pointer(out, key, namespace, ObjectId::from_bytes(*id));
        }
        Leaf::JavaScript(code) => append_javascript(out, key, code),
        Leaf::Symbol(symbol) => append_symbol(out, key, symbol),
        Leaf::Int32(value) => append_i32(out, key, *value),
        Leaf::Timestamp(time, increment) => append_timestamp(out, key, *time, *increment),
        Leaf::Int64(value) => append_i64(out, key, *value),
        Leaf::Decimal128(is_negative, coefficient, exponent) => {
            let sign = if *is_negative { "-" } else { "" };
            let decimal = Decimal128::parse(&format!("{sign}{coefficient}E{exponent}")).unwrap();
            append_decimal128(out, key, decimal);
        }
        Leaf::MinKey => append_min_key(out, key),
        Leaf::MaxKey => append_max_key(out, key),
    }
}

fn to_json(bytes: &[u8], mode: JsonMode) -> String {
    let mut out = Vec::new();
    write_json(RawDocument::from_bytes(bytes).unwrap(), mode, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_written_document_is_valid(bytes in document()) {
        prop_assert_eq!(validate(&bytes, MAX_DEPTH), Ok(()));
    }

    #[test]
    fn elements_are_read_as_they_were_written(bytes in document()) {
        let mut copy = Vec::new();
        let start = begin_document(&mut copy);
        for element in RawDocument::from_bytes(&bytes).unwrap() {
            let RawElement { key, value } = element.unwrap();
            append_value(&mut copy, key, value);
        }
        end_document(&mut copy, start);
        prop_assert_eq!(copy, bytes);
    }

    #[test]
    fn canonical_json_keeps_every_byte(bytes in document()) {
        let json = to_json(&bytes, JsonMode::Canonical);
        prop_assert_eq!(parse_json(&json).unwrap(), bytes, "{}", json);
    }

    #[test]
    fn relaxed_and_plain_json_are_json(bytes in document()) {
        for mode in [JsonMode::Relaxed, JsonMode::Plain] {
            let json = to_json(&bytes, mode);
            let parsed = serde_json::from_str::<serde_json::Value>(&json);
            prop_assert!(parsed.is_ok(), "{:?}: {}", parsed, json);
        }
    }

    #[test]
    fn what_validation_accepts_after_a_byte_changed_can_be_written_as_json(
        bytes in document(), at in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let mut bytes = bytes;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let is_written = RawDocument::from_bytes(&bytes)
            .is_ok_and(|document| write_json(document, JsonMode::Plain, &mut Vec::new()).is_ok());
        prop_assert!(is_written || validate(&bytes, MAX_DEPTH).is_err());
    }

    #[test]
    fn similar_documents_are_written_as_each_alone(
        documents in similar_documents(), at in any::<prop::sample::Index>(), byte in any::<u8>(), is_damaged in any::<bool>()
    ) {
        let mut documents = documents;
        if is_damaged && let Some(last) = documents.last_mut() {
            let at = at.index(last.len());
            last[at] = byte;
        }
        for mode in [JsonMode::Canonical, JsonMode::Relaxed, JsonMode::Plain] {
            let mut together = Vec::new();
            let mut writer = JsonWriter::behind(&mut together, mode, 0);
            let mut alone = Vec::new();
            for bytes in &documents {
                let Ok(document) = RawDocument::from_bytes(bytes) else { continue };
                let written = writer.document(document);
                let start = alone.len();
                prop_assert_eq!(&written, &write_json(document, mode, &mut alone));
                if written.is_err() {
                    alone.truncate(start);
                }
            }
            drop(writer);
            together.truncate(alone.len());
            prop_assert_eq!(String::from_utf8_lossy(&together), String::from_utf8_lossy(&alone));
        }
    }

    #[test]
    fn every_date_is_read_as_it_was_written(ms in any::<i64>(), near in -400_000_000_000_000i64..400_000_000_000_000) {
        for ms in [ms, near] {
            let mut out = Vec::new();
            datetime::write_iso(ms, true, &mut out);
            let text = String::from_utf8(out).unwrap();
            prop_assert_eq!(datetime::parse_iso(&text), Ok(ms), "{}", text);
        }
    }

    #[test]
    fn decimals_are_read_as_they_were_written(is_negative in any::<bool>(), c in 0..10u128.pow(34), e in -6176..=6111i32) {
        let sign = if is_negative { "-" } else { "" };
        let decimal = Decimal128::parse(&format!("{sign}{c}E{e}")).unwrap();
        let parts = decimal128::Parts::Finite { is_negative, coefficient: c, exponent: e };
        prop_assert_eq!(decimal.parts(), parts);
        prop_assert_eq!(Decimal128::parse(&decimal.to_string()), Ok(decimal));
    }

    #[test]
    fn a_short_decimal_is_what_its_form_with_an_exponent_is(c in any::<u64>(), digits in 1..20u32, places in 0..24usize) {
        let c = c % 10u64.pow(digits);
        let padded = format!("{c:0>width$}", width = places);
        let (whole, fraction) = padded.split_at(padded.len() - places);
        prop_assert_eq!(Decimal128::parse(&format!("{whole}.{fraction}")), Decimal128::parse(&format!("{c}E-{places}")));
        let exact = decimal128::Parts::Finite { is_negative: false, coefficient: c.into(), exponent: -(places as i32) };
        let decimal = Decimal128::parse(&format!("{whole}.{fraction}")).unwrap();
        prop_assert_eq!(decimal.parts(), exact);
        prop_assert_eq!(Decimal128::parse(&decimal.to_string()), Ok(decimal));
    }

    #[test]
    fn any_bytes_of_a_decimal_have_a_text_that_is_read(bytes in any::<[u8; 16]>()) {
        let text = Decimal128::from_bytes(bytes).to_string();
        prop_assert_eq!(Decimal128::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,60}") {
        let _ = parse_json(&text);
        let _ = Decimal128::parse(&text);
        let _ = datetime::parse_iso(&text);
        let _ = ObjectId::parse_hex(&text);
    }
}

#[test]
fn nesting_beyond_the_limit_is_an_error_and_not_a_crash() {
    let nested = |depth: usize| {
        let mut bytes = vec![5, 0, 0, 0, 0];
        for _ in 1..depth {
            let mut outer = Vec::with_capacity(bytes.len() + 8);
            let start = begin_document(&mut outer);
            append_raw_document(&mut outer, "", RawDocument::from_bytes(&bytes).unwrap());
            end_document(&mut outer, start);
            bytes = outer;
        }
        bytes
    };
    let deepest = nested(MAX_DEPTH);
    assert_eq!(validate(&deepest, MAX_DEPTH), Ok(()));
    assert_eq!(parse_json(&to_json(&deepest, JsonMode::Canonical)).unwrap(), deepest);

    let deeper = nested(MAX_DEPTH + 1);
    let too_deep = |result: Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::TooDeep);
    too_deep(validate(&deeper, MAX_DEPTH));
    let document = RawDocument::from_bytes(&deeper).unwrap();
    too_deep(write_json(document, JsonMode::Plain, &mut Vec::new()));
    too_deep(parse_json(&"{\"\":".repeat(MAX_DEPTH + 1)).map(drop).and(Ok(())).or_else(|_| {
        let text = "{\"\":".repeat(MAX_DEPTH) + "{}" + &"}".repeat(MAX_DEPTH);
        parse_json(&text).map(drop)
    }));
    too_deep(parse_json(&"[".repeat(1_000_000)).map(drop));
    assert_eq!(validate(&nested(20_000), 20_000), Ok(()));
}

#[test]
fn validation_says_where() {
    let mut bytes = Vec::new();
    let start = begin_document(&mut bytes);
    let outer = begin_subdocument(&mut bytes, "users");
    let inner = begin_array(&mut bytes, "names");
    append_str(&mut bytes, "0", "Ada");
    end_document(&mut bytes, inner);
    end_document(&mut bytes, outer);
    end_document(&mut bytes, start);
    let at = bytes.windows(3).position(|window| window == b"Ada").unwrap();
    bytes[at + 1] = 0xFF;
    let error = validate(&bytes, MAX_DEPTH).unwrap_err();
    assert_eq!(error.offset(), Some(at + 1));
    assert_eq!(error.path(), "users.names.0");
}
