//! What the reader promises about bytes that are BSON and bytes that only look like it.

use mangonel_bson::*;

fn sample() -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_document(&mut out);
    append_i32(&mut out, "n", 7);
    append_str(&mut out, "a key that is longer than thirty-two bytes", "text");
    let array = begin_array(&mut out, "list");
    append_double(&mut out, "0", 1.0);
    append_bool(&mut out, "1", true);
    end_document(&mut out, array);
    append_binary(&mut out, "old", 2, b"xyz");
    append_timestamp(&mut out, "t", 9, 8);
    end_document(&mut out, start);
    out
}

#[test]
fn written_elements_are_read_back_in_order() {
    let bytes = sample();
    let document = RawDocument::from_bytes(&bytes).unwrap();
    let mut copy = Vec::new();
    let start = begin_document(&mut copy);
    for element in document {
        let element = element.unwrap();
        append_value(&mut copy, element.key, element.value);
    }
    end_document(&mut copy, start);
    assert_eq!(copy, bytes);
}

#[test]
fn getters_are_lenient_about_number_types_only() {
    let bytes = sample();
    let document = RawDocument::from_bytes(&bytes).unwrap();
    assert_eq!(document.get_i64_lenient("n").unwrap(), Some(7));
    assert_eq!(document.get_i64_lenient("absent").unwrap(), None);
    assert_eq!(document.get_bool_lenient("n").unwrap(), Some(true));
    assert_eq!(document.get_timestamp("t").unwrap(), Some(Timestamp { time: 9, increment: 8 }));
    let values: Vec<_> = document.get_array("list").unwrap().unwrap().iter().collect();
    assert_eq!(values, [Ok(RawValue::Double(1.0)), Ok(RawValue::Boolean(true))]);
    let error = document.get_str("n").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongType);
    assert_eq!(error.to_string(), "expected string for \"n\", got int 7");
}

#[test]
fn every_cut_and_every_changed_byte_is_an_error_or_a_document_but_never_a_panic() {
    let bytes = sample();
    for length in 0..bytes.len() {
        assert!(RawDocument::from_bytes(&bytes[..length]).is_err());
    }
    for at in 0..bytes.len() {
        for byte in 0..=255 {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            if let Ok(document) = RawDocument::from_bytes(&bytes) {
                let _ = document.iter().count();
                let _ = document.get("absent");
            }
        }
    }
}

#[test]
fn iteration_ends_after_the_first_error() {
    let bytes = [13, 0, 0, 0, 0x08, b'a', 0, 2, 0x08, b'b', 0, 1, 0];
    let document = RawDocument::from_bytes(&bytes).unwrap();
    let mut iter = document.iter();
    let error = iter.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "expected 0 or 1 for a boolean, got 2 at byte 7 under \"a\"");
    assert!(iter.next().is_none());
}

#[test]
fn code_with_scope_may_not_claim_the_element_after_it() {
    let mut bytes = Vec::new();
    let start = begin_document(&mut bytes);
    let (code, scope) = begin_javascript_with_scope(&mut bytes, "c", "f()");
    end_document(&mut bytes, scope);
    end_javascript_with_scope(&mut bytes, code);
    append_null(&mut bytes, "n");
    end_document(&mut bytes, start);
    assert_eq!(validate(&bytes, 2), Ok(()));
    bytes[code] += 3;
    let error = validate(&bytes, 2).unwrap_err();
    assert_eq!(error.to_string(), "expected length 17 for code with scope, got 20 at byte 7 under \"c\"");
}
