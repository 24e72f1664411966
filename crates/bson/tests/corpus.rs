//! The official suite bson-corpus, read from the folder that MONGODB_SPECIFICATIONS names.

use std::fs;
use std::path::PathBuf;

use mangonel_bson::*;
use serde_json::Value;

/// Returns the suite's files, or says that it is skipped.
fn files(suite: &str) -> Vec<(String, Value)> {
    #[allow(clippy::disallowed_methods)] // The environment names the folder of the specifications.
    let Some(root) = std::env::var_os("MONGODB_SPECIFICATIONS") else {
        println!("{suite}: skipped, MONGODB_SPECIFICATIONS names no folder");
        return Vec::new();
    };
    let folder = PathBuf::from(root).join(suite).join("tests");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no test", folder.display());
    files
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
        })
        .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn list<'v>(file: &'v Value, key: &str) -> &'v [Value] {
    file[key].as_array().map_or(&[], Vec::as_slice)
}

fn to_json(bytes: &[u8], mode: JsonMode) -> String {
    let mut out = Vec::new();
    write_json(RawDocument::from_bytes(bytes).unwrap(), mode, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// White space, escapes and the spelling of doubles may differ; key order and everything else may not.
fn assert_same_json(found: &str, wanted: &str, what: &str) {
    fn spell(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (key, value) in members.iter_mut() {
                    match value {
                        Value::String(text) if key == "$numberDouble" => {
                            *text = format!("{:?}", text.parse::<f64>().unwrap());
                        }
                        _ => spell(value),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(spell),
            Value::Number(number) if number.to_string().contains(['.', 'e', 'E']) => {
                *value = Value::String(format!("{:?}", number.as_f64().unwrap()));
            }
            _ => {}
        }
    }
    let parse = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{what}: {e}: {text}"));
        spell(&mut value);
        // The text keeps the order of keys; comparing objects would ignore it.
        value.to_string()
    };
    assert_eq!(parse(found), parse(wanted), "{what}");
}

/// Writes every element again, embedded ones included, as a driver's decoder and encoder would.
fn rewrite(bytes: &[u8]) -> Vec<u8> {
    fn copy(document: RawDocument<'_>, is_array: bool, out: &mut Vec<u8>) {
        for (i, element) in document.iter().enumerate() {
            let RawElement { key, value } = element.unwrap();
            let index = i.to_string();
            let key = if is_array { &index } else { key };
            match value {
                RawValue::Document(inner) => {
                    let start = begin_subdocument(out, key);
                    copy(inner, false, out);
                    end_document(out, start);
                }
                RawValue::Array(inner) => {
                    let start = begin_array(out, key);
                    copy(inner.as_document(), true, out);
                    end_document(out, start);
                }
                RawValue::JavaScriptWithScope { code, scope } => {
                    let (start, inner) = begin_javascript_with_scope(out, key, code);
                    copy(scope, false, out);
                    end_document(out, inner);
                    end_javascript_with_scope(out, start);
                }
                RawValue::Regex { pattern, options } => {
                    let mut options: Vec<char> = options.chars().collect();
                    options.sort_unstable();
                    append_regex(out, key, pattern, &options.iter().collect::<String>());
                }
                value => append_value(out, key, value),
            }
        }
    }
    let mut out = Vec::new();
    let start = begin_document(&mut out);
    copy(RawDocument::from_bytes(bytes).unwrap(), false, &mut out);
    end_document(&mut out, start);
    out
}

fn check_valid(case: &Value, what: &str) {
    let text = |key: &str| case[key].as_str();
    let bson = unhex(text("canonical_bson").unwrap());
    let canonical = text("canonical_extjson").unwrap();
    let is_lossy = case["lossy"].as_bool().unwrap_or(false);

    validate(&bson, MAX_DEPTH).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(rewrite(&bson), bson, "{what}");
    assert_same_json(&to_json(&bson, JsonMode::Canonical), canonical, what);
    let parsed = parse_json(canonical).unwrap_or_else(|error| panic!("{what}: {error}"));
    if !is_lossy {
        assert_eq!(parsed, bson, "{what}: canonical extended JSON to BSON");
    }
    assert_same_json(&to_json(&parsed, JsonMode::Canonical), canonical, what);
    if let Some(relaxed) = text("relaxed_extjson") {
        assert_same_json(&to_json(&bson, JsonMode::Relaxed), relaxed, what);
        let parsed = parse_json(relaxed).unwrap();
        assert_same_json(&to_json(&parsed, JsonMode::Relaxed), relaxed, what);
    }
    if let Some(degenerate) = text("degenerate_bson") {
        let degenerate = unhex(degenerate);
        validate(&degenerate, MAX_DEPTH).unwrap();
        assert_eq!(rewrite(&degenerate), bson, "{what}: degenerate BSON");
        assert_same_json(&to_json(&degenerate, JsonMode::Canonical), canonical, what);
    }
    if let Some(degenerate) = text("degenerate_extjson") {
        let parsed = parse_json(degenerate).unwrap_or_else(|error| panic!("{what}: {error}"));
        if !is_lossy {
            assert_eq!(parsed, bson, "{what}: degenerate extended JSON");
        }
        assert_same_json(&to_json(&parsed, JsonMode::Canonical), canonical, what);
    }
    // The form that a driver without the deprecated types makes of them; with them, just another pair.
    if let (Some(bson), Some(json)) = (text("converted_bson"), text("converted_extjson")) {
        assert_eq!(parse_json(json).unwrap(), unhex(bson), "{what}: converted");
        assert_same_json(&to_json(&unhex(bson), JsonMode::Canonical), json, what);
    }
    // Plain JSON has no expected text; it must be JSON.
    let plain = to_json(&bson, JsonMode::Plain);
    serde_json::from_str::<Value>(&plain).unwrap_or_else(|e| panic!("{what}: {e}: {plain}"));
}

#[test]
fn bson_corpus() {
    for (name, file) in files("bson-corpus") {
        let mut count = 0;
        for case in list(&file, "valid") {
            check_valid(case, &format!("{name}: {}", case["description"]));
            count += 1;
        }
        for case in list(&file, "decodeErrors") {
            let bytes = unhex(case["bson"].as_str().unwrap());
            let result = validate(&bytes, MAX_DEPTH);
            assert!(result.is_err(), "{name}: {} was accepted", case["description"]);
            count += 1;
        }
        let is_decimal = file["bson_type"] == "0x13";
        for case in list(&file, "parseErrors") {
            let text = case["string"].as_str().unwrap();
            let is_refused = match is_decimal {
                true => Decimal128::parse(text).is_err(),
                false => parse_json(text).is_err(),
            };
            assert!(is_refused, "{name}: {} was accepted", case["description"]);
            count += 1;
        }
        assert!(count > 0, "{name} holds no case");
        println!("bson-corpus {name}: {count} cases");
    }
}
