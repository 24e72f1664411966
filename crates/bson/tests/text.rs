//! Values as text: dates, ObjectIds, decimals, and what each JSON mode writes.

use mangonel_bson::datetime::{Civil, date_of, parse_iso, write_iso};
use mangonel_bson::*;

fn iso(ms: i64) -> String {
    let mut out = Vec::new();
    write_iso(ms, true, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn dates_follow_the_gregorian_calendar() {
    for (text, ms) in [
        ("1600-12-31T01:02:03.004Z", -11_644_556_276_996),
        ("1900-02-28T01:02:03.004Z", -2_203_973_876_996),
        ("1900-03-01T01:02:03.004Z", -2_203_887_476_996),
        ("1969-12-31T01:02:03.004Z", -82_676_996),
        ("2000-02-29T01:02:03.004Z", 951_786_123_004),
        ("2000-03-01T01:02:03.004Z", 951_872_523_004),
        ("2024-02-29T01:02:03.004Z", 1_709_168_523_004),
        ("2100-03-01T01:02:03.004Z", 4_107_546_123_004),
        ("9999-12-31T01:02:03.004Z", 253_402_218_123_004),
        ("+010000-01-01T00:00:00.000Z", 253_402_300_800_000),
        ("0000-01-01T00:00:00.000Z", -62_167_219_200_000),
        ("-000001-12-31T23:59:59.999Z", -62_167_219_200_001),
    ] {
        assert_eq!(iso(ms), text);
        assert_eq!(parse_iso(text), Ok(ms), "{text}");
    }
}

#[test]
fn the_first_and_last_instants_have_dates() {
    for ms in [i64::MIN, i64::MAX] {
        assert_eq!(Civil::from_ms(ms).to_ms(), Some(ms));
        assert_eq!(parse_iso(&iso(ms)), Ok(ms));
    }
}

#[test]
fn each_day_is_the_one_after_the_day_before() {
    let (mut year, mut month, mut day) = (0, 3, 1);
    for days in 0..4_000_000 {
        assert_eq!(date_of(days), (year, month, day), "{days}");
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last = match month {
            2 => 28 + u8::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        (year, month, day) = match (month, day) {
            (12, 31) => (year + 1, 1, 1),
            _ if day == last => (year, month + 1, 1),
            _ => (year, month, day + 1),
        };
    }
}

#[test]
fn dates_with_offsets_are_moved_to_utc() {
    let noon = parse_iso("2020-06-01T12:00:00Z").unwrap();
    for text in [
        "2020-06-01T12:00Z",
        "2020-06-01T12:00:00.000999Z",
        "2020-06-01T14:00:00+02:00",
        "2020-06-01T17:30:00+0530",
        "2020-06-01T07:00:00-05",
        "2020-06-02T00:00:00.0+12:00",
    ] {
        assert_eq!(parse_iso(text), Ok(noon), "{text}");
    }
    assert_eq!(parse_iso("2020-06-01T12:00:00.5Z"), Ok(noon + 500));
    assert_eq!(parse_iso("2020-06-01T12:00:00.25Z"), Ok(noon + 250));
}

#[test]
fn dates_that_no_calendar_has_are_refused() {
    for text in [
        "",
        "2020-06-01",
        "2020-06-01 12:00:00Z",
        "2020-06-01T12:00:00",
        "2020-06-01T12:00:00.Z",
        "2020-06-01T12:00:00Zx",
        "2020-06-01T24:00:00Z",
        "2020-06-01T12:60:00Z",
        "2020-06-01T12:00:60Z",
        "2020-06-31T12:00:00Z",
        "2019-02-29T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "2020-13-01T12:00:00Z",
        "2020-00-01T12:00:00Z",
        "2020-01-00T12:00:00Z",
        "20-01-01T12:00:00Z",
        "+2020-01-01T12:00:00Z",
        "2020-01-01T12:00:00+25:00",
        "2020-01-01T12:00:00+1",
        "2020-01-01T12:00:00+01:",
        "+999999999-01-01T12:00:00Z",
        "２020-01-01T12:00:00Z",
    ] {
        let error = parse_iso(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Syntax, "{text}");
    }
}

#[test]
fn object_ids_take_hex_of_either_case_and_write_lower() {
    let id = ObjectId::parse_hex("56E1FC72e0c917e9c4714161").unwrap();
    assert_eq!(id.to_hex(), "56e1fc72e0c917e9c4714161");
    assert_eq!(id.timestamp(), 0x56E1_FC72);
    let parts = ObjectId::from_parts(0x56E1_FC72, [0xE0, 0xC9, 0x17, 0xE9, 0xC4], 0xFF71_4161);
    assert_eq!(parts, id);
    for text in ["", "56e1fc72e0c917e9c471416", "56e1fc72e0c917e9c47141611", "56e1fc72e0c917e9c471416g"] {
        assert_eq!(ObjectId::parse_hex(text).unwrap_err().kind(), ErrorKind::Syntax, "{text}");
    }
    assert!(ObjectId::parse_hex(&"é".repeat(12)).is_err());
}

#[test]
fn decimals_that_do_not_fit_are_out_of_range_and_not_rounded() {
    for text in ["1E6145", "1E-6177", "12345678901234567890123456789012345", "1E99999999999999999999"] {
        assert_eq!(Decimal128::parse(text).unwrap_err().kind(), ErrorKind::OutOfRange, "{text}");
    }
    let zeros = format!("{}1{}", "0".repeat(5000), "0".repeat(6144));
    assert_eq!(Decimal128::parse(&zeros).unwrap().to_string(), "1.000000000000000000000000000000000E+6144");
}

fn sample() -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_document(&mut out);
    append_object_id(&mut out, "_id", ObjectId::from_bytes([0xAB; 12]));
    append_datetime(&mut out, "date", 1_700_000_000_120);
    append_datetime(&mut out, "old", -1);
    append_i32(&mut out, "int", -5);
    append_i64(&mut out, "long", i64::MAX);
    append_double(&mut out, "double", 3.0);
    append_double(&mut out, "nan", f64::NAN);
    append_decimal128(&mut out, "decimal", Decimal128::parse("1.50").unwrap());
    append_binary(&mut out, "binary", 0, b"\x00\xFF");
    append_binary(&mut out, "uuid", binary::UUID, &[0x12; 16]);
    append_regex(&mut out, "regex", "a/\"b", "xi");
    append_timestamp(&mut out, "time", 7, 8);
    let array = begin_array(&mut out, "array");
    append_null(&mut out, "0");
    append_bool(&mut out, "1", true);
    end_document(&mut out, array);
    let empty = begin_subdocument(&mut out, "empty");
    end_document(&mut out, empty);
    end_document(&mut out, start);
    out
}

fn json(mode: JsonMode) -> String {
    let bytes = sample();
    let mut out = Vec::new();
    write_json(RawDocument::from_bytes(&bytes).unwrap(), mode, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn documents_behind_one_another_are_written_as_each_alone() {
    let bytes = sample();
    let document = RawDocument::from_bytes(&bytes).unwrap();
    for mode in [JsonMode::Canonical, JsonMode::Relaxed, JsonMode::Plain] {
        let mut out = b"begun".to_vec();
        let mut writer = JsonWriter::behind(&mut out, mode, 0);
        for _ in 0..50 {
            writer.reserve(10 * bytes.len()).unwrap();
            writer.byte(b',');
            writer.document(document).unwrap();
        }
        drop(writer);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("begun{}", format!(",{}", json(mode)).repeat(50))
        );
    }
}

#[test]
fn plain_json_holds_strings_and_numbers_only() {
    let wanted = concat!(
        r#"{"_id":"abababababababababababab","date":"2023-11-14T22:13:20.120Z","#,
        r#""old":"1969-12-31T23:59:59.999Z","int":-5,"long":9223372036854775807,"double":3.0,"nan":null,"#,
        r#""decimal":"1.50","binary":"AP8=","uuid":"12121212-1212-1212-1212-121212121212","#,
        r#""regex":"/a/\"b/xi","time":{"t":7,"i":8},"array":[null,true],"empty":{}}"#
    );
    assert_eq!(json(JsonMode::Plain), wanted);
}

#[test]
fn relaxed_json_keeps_types_but_not_widths() {
    let wanted = concat!(
        r#"{"_id":{"$oid":"abababababababababababab"},"date":{"$date":"2023-11-14T22:13:20.120Z"},"#,
        r#""old":{"$date":{"$numberLong":"-1"}},"int":-5,"long":9223372036854775807,"double":3.0,"#,
        r#""nan":{"$numberDouble":"NaN"},"decimal":{"$numberDecimal":"1.50"},"#,
        r#""binary":{"$binary":{"base64":"AP8=","subType":"00"}},"#,
        r#""uuid":{"$binary":{"base64":"EhISEhISEhISEhISEhISEg==","subType":"04"}},"#,
        r#""regex":{"$regularExpression":{"pattern":"a/\"b","options":"ix"}},"#,
        r#""time":{"$timestamp":{"t":7,"i":8}},"array":[null,true],"empty":{}}"#
    );
    assert_eq!(json(JsonMode::Relaxed), wanted);
}

#[test]
fn canonical_json_keeps_every_type() {
    let text = json(JsonMode::Canonical);
    for part in [
        r#""date":{"$date":{"$numberLong":"1700000000120"}}"#,
        r#""int":{"$numberInt":"-5"},"long":{"$numberLong":"9223372036854775807"}"#,
        r#""double":{"$numberDouble":"3.0"}"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn json_errors_say_where() {
    let error = parse_json(r#"{"a": {"b": {"$oid": 42}}}"#).unwrap_err();
    assert_eq!(error.to_string(), "expected a string in \"$oid\", got something else under \"a.b\"");
    let error = parse_json(r#"{"a": [1, tru]}"#).unwrap_err();
    assert_eq!(error.to_string(), "expected a JSON value, got 't' at byte 10 under \"a\"");

    let mut bytes = sample();
    let at = bytes.windows(4).position(|window| window == b"long").unwrap();
    bytes[at] = 0xFF;
    let document = RawDocument::from_bytes(&bytes).unwrap();
    let error = write_json(document, JsonMode::Plain, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), format!("expected UTF-8, got another byte at byte {at}"));
}

#[test]
fn json_that_is_not_strict_is_refused() {
    for text in [
        "",
        "[]",
        "1",
        "{",
        "{}}",
        "{} x",
        "{'a':1}",
        "{a:1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":1e}",
        "{\"a\":NaN}",
        "{\"a\":1,}",
        "{\"a\":[1,]}",
        "{\"a\" 1}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\ud800\\u0041\"}",
        "{\"a\":\"",
        "{\"a\":nul}",
        "\u{FEFF}{}",
        "{\"a\":1e999}x",
    ] {
        assert_eq!(parse_json(text).unwrap_err().kind(), ErrorKind::Syntax, "{text}");
    }
    let surrogates = parse_json("{\"a\":\"\\ud83e\\udd80\"}").unwrap();
    assert_eq!(RawDocument::from_bytes(&surrogates).unwrap().get_str("a").unwrap(), Some("🦀"));
}
