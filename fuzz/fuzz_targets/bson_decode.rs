//! Any bytes: reading never panics, and what `validate` accepts can be walked to the end in every way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mangonel_bson::*;

fuzz_target!(|data: &[u8]| {
    check(data);
    // Most changes break the outermost length; mended, they reach the elements.
    if let Ok(length) = i32::try_from(data.len())
        && length >= 5
    {
        let mut mended = data.to_vec();
        mended[..4].copy_from_slice(&length.to_le_bytes());
        mended[data.len() - 1] = 0;
        check(&mended);
    }
});

fn check(data: &[u8]) {
    let is_valid = validate(data, MAX_DEPTH).is_ok();
    let Ok(document) = RawDocument::from_bytes(data) else {
        assert!(!is_valid, "validate accepts what from_bytes refuses");
        return;
    };
    let is_walked = walk(document, MAX_DEPTH);
    assert_eq!(is_walked, is_valid, "validate and the iterators disagree");
    for mode in [JsonMode::Canonical, JsonMode::Relaxed, JsonMode::Plain] {
        let mut out = Vec::new();
        let result = write_json(document, mode, &mut out);
        // The other way round need not hold: the text of an array does not need its keys.
        assert!(result.is_ok() || !is_valid, "validate accepts, write_json refuses: {result:?}");
        std::str::from_utf8(&out).expect("JSON is UTF-8, even when it ends early");
    }
}

/// Tells whether everything inside could be read; looks every key up, too.
fn walk(document: RawDocument<'_>, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let mut is_whole = true;
    let mut iter = document.iter();
    while let Some(element) = iter.next() {
        let Ok(RawElement { key, value }) = element else {
            assert!(iter.next().is_none(), "iteration went on after an error");
            return false;
        };
        let found = document.get(key).expect("a key that was walked can be found");
        assert!(found.is_some(), "a key that was walked is found");
        is_whole &= match value {
            RawValue::Document(inner) => walk(inner, depth),
            RawValue::Array(inner) => walk(inner.as_document(), depth),
            RawValue::JavaScriptWithScope { scope, .. } => walk(scope, depth),
            _ => true,
        };
    }
    let _ = document.get("no such key");
    is_whole
}
