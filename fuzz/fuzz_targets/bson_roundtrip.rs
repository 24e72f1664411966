//! Valid documents come back unchanged: element by element, and through canonical extended JSON.
//! Text that `parse_json` accepts becomes a valid document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mangonel_bson::*;

fuzz_target!(|data: &[u8]| {
    if validate(data, MAX_DEPTH).is_ok() {
        let document = RawDocument::from_bytes(data).expect("valid");
        assert_eq!(copy(document), data, "writing what was read changes it");
        let first = json(document);
        // One pass may change array keys, the order of regular expression options and the bits of a NaN, and a
        // document that looks like a wrapper becomes what it looks like or an error; a second pass changes nothing.
        if let Ok(parsed) = parse_json(&first) {
            check_parsed(&parsed);
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(parsed) = parse_json(text) {
            check_parsed(&parsed);
        }
        if let Ok(decimal) = Decimal128::parse(text) {
            let again = Decimal128::parse(&decimal.to_string()).expect("own text is read");
            assert_eq!(again.to_string(), decimal.to_string());
        }
        if let Ok(ms) = datetime::parse_iso(text) {
            let mut out = Vec::new();
            datetime::write_iso(ms, false, &mut out);
            let written = String::from_utf8(out).expect("ASCII");
            assert_eq!(datetime::parse_iso(&written), Ok(ms), "{written}");
        }
    }
});

fn check_parsed(bytes: &[u8]) {
    validate(bytes, MAX_DEPTH).expect("parse_json writes valid documents");
    let document = RawDocument::from_bytes(bytes).expect("valid");
    let text = json(document);
    let again = parse_json(&text).expect("own JSON is read");
    let again = RawDocument::from_bytes(&again).expect("valid");
    assert_eq!(json(again), text, "a second pass through JSON changes the text");
}

fn json(document: RawDocument<'_>) -> String {
    let mut out = Vec::new();
    write_json(document, JsonMode::Canonical, &mut out).expect("valid documents become JSON");
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn copy(document: RawDocument<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_document(&mut out);
    for element in document {
        let RawElement { key, value } = element.expect("valid");
        append_value(&mut out, key, value);
    }
    end_document(&mut out, start);
    out
}
