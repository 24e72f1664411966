//! Loads the official specification tests from the folder that `MONGODB_SPECIFICATIONS` names, and turns their
//! extended JSON into BSON. Knows no particular specification.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mangonel_bson as bson;
use mangonel_proto::time::Instant;
use mangonel_proto::topology::Address;
use serde_json::Value;

/// One file of a specification.
pub struct Case {
    /// Its path below the specification's folder, for messages.
    pub name: String,
    /// Its content.
    pub json: Value,
}

/// Loads all JSON files below `folder`, in order; `None`, with a line that says so, without a specification.
pub fn load(folder: &str) -> Option<Vec<Case>> {
    #[allow(clippy::disallowed_methods)] // The environment names the folder of the specifications.
    let Some(root) = std::env::var_os("MONGODB_SPECIFICATIONS") else {
        println!("skipped {folder}: MONGODB_SPECIFICATIONS is not set");
        return None;
    };
    let root = PathBuf::from(root).join(folder);
    let mut cases = Vec::new();
    walk(&root, &root, &mut cases);
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!cases.is_empty(), "no specification tests below {}", root.display());
    Some(cases)
}

fn walk(root: &Path, folder: &Path, cases: &mut Vec<Case>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, cases);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let json = serde_json::from_slice(&fs::read(&path).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.strip_prefix(root).unwrap().display().to_string();
            cases.push(Case { name, json });
        }
    }
}

/// Runs each case, and fails at the end with all failures.
pub fn run(suite: &str, cases: &[Case], check: impl Fn(&Case) -> Result<(), String>) {
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| check(case).err().map(|error| format!("{}: {error}", case.name)))
        .collect();
    println!("{suite}: {} of {} cases passed", cases.len() - failures.len(), cases.len());
    assert!(failures.is_empty(), "{suite}\n{}", failures.join("\n"));
}

/// Turns an object of extended JSON into a BSON document.
pub fn document(json: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let start = bson::begin_document(&mut out);
    for (key, value) in json.as_object().expect("an object") {
        append(&mut out, key, value);
    }
    bson::end_document(&mut out, start);
    out
}

fn append(out: &mut Vec<u8>, key: &str, value: &Value) {
    match value {
        Value::Null => bson::append_null(out, key),
        Value::Bool(value) => bson::append_bool(out, key, *value),
        Value::String(text) => bson::append_str(out, key, text),
        Value::Number(number) => match number.as_i64() {
            Some(n) => match i32::try_from(n) {
                Ok(n) => bson::append_i32(out, key, n),
                Err(_) => bson::append_i64(out, key, n),
            },
            None => bson::append_double(out, key, number.as_f64().unwrap()),
        },
        Value::Array(items) => {
            let start = bson::begin_array(out, key);
            for (index, item) in items.iter().enumerate() {
                append(out, &index.to_string(), item);
            }
            bson::end_document(out, start);
        }
        Value::Object(fields) => {
            if let Some(hex) = fields.get("$oid") {
                bson::append_object_id(out, key, object_id(hex.as_str().unwrap()));
            } else if let Some(text) = fields.get("$numberLong") {
                bson::append_i64(out, key, text.as_str().unwrap().parse().unwrap());
            } else {
                let start = bson::begin_subdocument(out, key);
                for (key, value) in fields {
                    append(out, key, value);
                }
                bson::end_document(out, start);
            }
        }
    }
}

/// Reads 24 hex digits.
pub fn object_id(hex: &str) -> bson::ObjectId {
    bson::ObjectId::parse_hex(hex).unwrap()
}

/// Reads a number that may be wrapped as `$numberLong`.
pub fn long(json: &Value) -> Option<i64> {
    match json.get("$numberLong") {
        Some(text) => text.as_str()?.parse().ok(),
        None => json.as_i64(),
    }
}

/// Reads an address of a test.
pub fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

/// Returns the moment this many milliseconds after the epoch.
pub fn at(milliseconds: u64) -> Instant {
    Instant(Duration::from_millis(milliseconds))
}

/// Fails with both values unless they are equal.
pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: expected {expected:?}, got {found:?}")) }
}
