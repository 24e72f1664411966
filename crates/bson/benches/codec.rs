//! Reading and writing, in nanoseconds per document: the minimum of several short runs, since other processes only add
//! time.
//!
//! `cargo bench -p mangonel-bson -- flat` runs the rows whose name holds "flat".
#![allow(clippy::disallowed_types)] // A benchmark reads the clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mangonel_bson::*;

#[path = "shared/documents.rs"]
mod documents;

use documents::{deep, document, flat, user};

const RUN: Duration = Duration::from_millis(40);
const RUNS: usize = 7;

fn main() {
    // Cargo adds `--bench` itself.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    println!("{:<24} {:>9} {:>11} {:>9}", "row", "bytes", "ns", "MB/s");
    for (name, bytes) in
        [("user", user()), ("flat", flat()), ("deep", deep(6)), ("texts", texts()), ("numbers", numbers())]
    {
        let document = RawDocument::from_bytes(&bytes).unwrap();
        let mut out = Vec::with_capacity(bytes.len() * 8);
        let row = |task: &str, work: &mut dyn FnMut()| {
            let name = format!("{name} {task}");
            if filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
                report(&name, bytes.len(), work);
            }
        };
        row("iterate", &mut || walk(document));
        row("get_absent", &mut || {
            black_box(document.get(black_box("absent")).unwrap());
        });
        row("validate", &mut || validate(black_box(&bytes), MAX_DEPTH).unwrap());
        row("copy", &mut || {
            out.clear();
            let start = begin_document(&mut out);
            for element in document {
                let RawElement { key, value } = element.unwrap();
                append_value(&mut out, key, value);
            }
            end_document(&mut out, start);
        });
        for (task, mode) in [
            ("plain_json", JsonMode::Plain),
            ("relaxed_json", JsonMode::Relaxed),
            ("canonical_json", JsonMode::Canonical),
        ] {
            let mut out = Vec::with_capacity(bytes.len() * 8);
            row(task, &mut || {
                out.clear();
                write_json(black_box(document), mode, &mut out).unwrap();
            });
        }
        let mut json = Vec::new();
        write_json(document, JsonMode::Canonical, &mut json).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert_eq!(parse_json(&json).unwrap(), bytes);
        row("parse_json", &mut || {
            black_box(parse_json(black_box(&json)).unwrap());
        });
    }
}

fn report(name: &str, size: usize, work: &mut dyn FnMut()) {
    let mut rounds = 1u32;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        let mut done = 0u32;
        while start.elapsed() < RUN {
            for _ in 0..rounds {
                work();
            }
            done += rounds;
            // The clock is then read about a hundred times per run.
            rounds = (done / 100).max(1);
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(done));
    }
    println!("{name:<24} {size:>9} {:>11.1} {:>9.0}", best * 1e9, size as f64 / best / 1e6);
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

fn texts() -> Vec<u8> {
    document(|out| {
        append_str(out, "ascii", &"The quick brown fox jumps over the lazy dog. ".repeat(40));
        append_str(out, "escapes", &"a \"quoted\" line\nand a\ttab\\ ".repeat(40));
        append_str(out, "unicode", &"größer als ☆ und 🦀 ".repeat(40));
    })
}

fn numbers() -> Vec<u8> {
    document(|out| {
        for (key, count) in [("ints", 100), ("doubles", 100)] {
            let start = begin_array(out, key);
            for i in 0..count {
                match key {
                    "ints" => append_i32(out, &i.to_string(), i * 7919),
                    _ => append_double(out, &i.to_string(), f64::from(i).sqrt()),
                }
            }
            end_document(out, start);
        }
    })
}
