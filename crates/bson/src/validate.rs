//! Checks a whole document at once, embedded ones included. Array keys are not checked: no reader relies on them.

use crate::error::{Error, ErrorKind, Result};
use crate::reader::{Iter, RawDocument, RawValue};

/// Checks every length, terminator, type code, boolean and UTF-8 sequence of the document that fills `bytes`.
///
/// After `Ok`, walking any part of the document meets no error.
///
/// `max_depth` counts documents and arrays inside each other, the outermost one included.
///
/// # Errors
/// [`ErrorKind::Malformed`], with the byte counted from the start of `bytes` and the path of keys;
/// [`ErrorKind::TooDeep`] when more than `max_depth` documents lie inside each other.
pub fn validate(bytes: &[u8], max_depth: usize) -> Result<()> {
    let document = RawDocument::from_bytes(bytes)?;
    if max_depth == 0 {
        return Err(too_deep(max_depth));
    }
    // A stack on the heap, so that a caller's large limit cannot exhaust the thread's own.
    let mut outer: Vec<(&str, RawDocument<'_>, Iter<'_>)> = Vec::new();
    let mut current = ("", document, document.iter());
    loop {
        let inner = match current.2.next() {
            Some(Ok(element)) => match element.value {
                RawValue::Document(inner) => Some((element.key, inner)),
                RawValue::Array(inner) => Some((element.key, inner.as_document())),
                RawValue::JavaScriptWithScope { scope, .. } => Some((element.key, scope)),
                _ => None,
            },
            Some(Err(error)) => {
                return Err(place(error, bytes, current.1, current.0, &outer));
            }
            None => match outer.pop() {
                Some(last) => {
                    current = last;
                    None
                }
                None => return Ok(()),
            },
        };
        let Some((key, inner)) = inner else { continue };
        if outer.len() + 1 >= max_depth {
            let error = too_deep(max_depth).at(0);
            outer.push(current);
            return Err(place(error, bytes, inner, key, &outer));
        }
        outer.push(std::mem::replace(&mut current, (key, inner, inner.iter())));
    }
}

#[cold]
fn too_deep(max_depth: usize) -> Error {
    Error::new(
        ErrorKind::TooDeep,
        format!("expected at most {max_depth} documents inside each other, got more"),
    )
}

/// Makes the error's offset count from the outermost document, and adds the keys that lead to it.
#[cold]
fn place(
    error: Error,
    bytes: &[u8],
    document: RawDocument<'_>,
    key: &str,
    outer: &[(&str, RawDocument<'_>, Iter<'_>)],
) -> Error {
    let base = document.as_bytes().as_ptr() as usize - bytes.as_ptr() as usize;
    let mut error = error.shift(base);
    if !outer.is_empty() {
        error = error.under(key);
    }
    for (key, ..) in outer.iter().skip(1).rev() {
        error = error.under(key);
    }
    error
}
