//! Parses JSON text to a small tree. Knows nothing of BSON; strict, as in RFC 8259.

use std::borrow::Cow;

use crate::MAX_DEPTH;
use crate::error::{Error, ErrorKind, Result};

/// Code with scope takes two objects per document, and the innermost value up to three for a DBPointer.
const MAX_JSON_DEPTH: usize = 2 * MAX_DEPTH + 3;

/// A JSON value; strings without escapes point into the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    /// As written; it follows the grammar.
    Number(&'a str),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// In the order written; keys may repeat.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Parses one value that fills `text`, except for white space around it.
pub(super) fn parse(text: &str) -> Result<Json<'_>> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(MAX_JSON_DEPTH)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.expected("the end of the text")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Always on a character boundary.
    at: usize,
}

impl<'a> Parser<'a> {
    fn value(&mut self, depth: usize) -> Result<Json<'a>> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(self.deeper(depth)?),
            Some(b'[') => self.array(self.deeper(depth)?),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => Err(self.expected("a JSON value")),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize> {
        depth.checked_sub(1).ok_or_else(|| {
            let message = format!("expected at most {MAX_JSON_DEPTH} values inside each other, got more");
            Error::new(ErrorKind::TooDeep, message).at(self.at)
        })
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.eat(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in quotes"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.eat(b':') {
                return Err(self.expected("':'"));
            }
            let value = self.value(depth).map_err(|e| e.under(&key))?;
            members.push((key, value));
            self.skip_space();
            if self.eat(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.eat(b',') {
                return Err(self.expected("',' or '}'"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>> {
        self.at += 1;
        let mut values = Vec::new();
        self.skip_space();
        if self.eat(b']') {
            return Ok(Json::Array(values));
        }
        loop {
            values.push(self.value(depth)?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(Json::Array(values));
            }
            if !self.eat(b',') {
                return Err(self.expected("',' or ']'"));
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let mut unescaped = String::new();
        let mut start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let last = &self.text[start..self.at];
                    self.at += 1;
                    if unescaped.is_empty() {
                        return Ok(Cow::Borrowed(last));
                    }
                    unescaped.push_str(last);
                    return Ok(Cow::Owned(unescaped));
                }
                Some(b'\\') => {
                    unescaped.push_str(&self.text[start..self.at]);
                    self.at += 1;
                    unescaped.push(self.escape()?);
                    start = self.at;
                }
                // A byte of a longer character is never a quote, a backslash or a control character.
                Some(0x20..) => self.at += 1,
                _ => return Err(self.expected("a string without control characters, ended by '\"'")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let letter = self.peek();
        if letter == Some(b'u') {
            self.at += 1;
            return self.unicode_escape();
        }
        let c = match letter {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{C}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            _ => return Err(self.expected("an escape")),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let first = self.four_hex()?;
        let code = match first {
            0xD800..=0xDBFF if self.text[self.at..].starts_with("\\u") => {
                self.at += 2;
                let second = self.four_hex()?;
                match second {
                    0xDC00..=0xDFFF => 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00),
                    _ => return Err(self.expected("the second half of a surrogate pair")),
                }
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| self.expected("both halves of a surrogate pair"))
    }

    fn four_hex(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let mut code = 0;
        for digit in digits.unwrap_or(b"?") {
            match crate::object_id::hex_digit(*digit) {
                Some(value) => code = code << 4 | u32::from(value),
                None => return Err(self.expected("four hex digits")),
            }
        }
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'-') || self.eat(b'+');
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<()> {
        if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Err(self.expected("a digit"));
        }
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.expected("a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    #[cold]
    fn expected(&self, what: &str) -> Error {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => format!("{c:?}"),
            None => "the end".to_owned(),
        };
        Error::syntax(format!("expected {what}, got {found}")).at(self.at)
    }
}
