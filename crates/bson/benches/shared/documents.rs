//! Documents shaped like an application's, for benchmarks and instruction counts: a change here changes the counts.

use mangonel_bson::{
    ObjectId, append_bool, append_datetime, append_double, append_i32, append_i64, append_null,
    append_object_id, append_str, begin_array, begin_document, begin_subdocument, end_document,
};

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

/// Many fields beside each other.
pub fn flat() -> Vec<u8> {
    document(|out| {
        for number in 0..48 {
            append_str(out, &format!("field_{number}_text"), &format!("some value of field {number}"));
            append_i32(out, &format!("field_{number}_int"), number * 1001);
            append_double(out, &format!("field_{number}_double"), f64::from(number) * 1.618);
        }
    })
}

/// Documents in documents, this many levels of them.
pub fn deep(levels: usize) -> Vec<u8> {
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
