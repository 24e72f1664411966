//! The common prologue of every function by which Python enters the module.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// The first statement of each entry.
const FIRST: &str = "crate::thread_end::never_unwind_this_thread();";

/// Guards a function, or all functions of an `impl`: a thread that the ending interpreter stops is not
/// unwound through Rust's frames. Stands above `#[pymethods]` and `#[pyfunction]`.
#[proc_macro_attribute]
pub fn entries(_: TokenStream, item: TokenStream) -> TokenStream {
    guarded(item)
}

/// Inserts the statement at the start of each function's body in `stream`; functions inside bodies are left
/// alone.
fn guarded(stream: TokenStream) -> TokenStream {
    let (mut is_impl, mut is_function) = (false, false);
    let mut previous = String::new();
    let mut made = Vec::new();
    for token in stream {
        let text = match &token {
            TokenTree::Ident(name) => name.to_string(),
            _ => String::new(),
        };
        is_impl |= text == "impl" && !is_function;
        // A type such as `fn(u8)` has no name behind its `fn`.
        is_function |= previous == "fn" && !text.is_empty();
        previous = text;
        made.push(match token {
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace && (is_function || is_impl) => {
                let inside = if is_function { with_first(body.stream()) } else { guarded(body.stream()) };
                is_function = false;
                let mut group = Group::new(Delimiter::Brace, inside);
                group.set_span(body.span());
                TokenTree::Group(group)
            }
            other => other,
        });
    }
    made.into_iter().collect()
}

fn with_first(body: TokenStream) -> TokenStream {
    let mut first: TokenStream = FIRST.parse().expect("the statement is written above");
    first.extend(body);
    first
}
