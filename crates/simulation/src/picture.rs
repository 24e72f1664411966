//! A picture of a run as one HTML page without scripts: a column for each client and member, time downwards, an arrow for
//! each message.

use std::fmt::Write;

use crate::plan::Plan;
use crate::trace::{Who, Word};
use crate::world::Report;

const COLUMN: usize = 190;
const ROW: usize = 17;
const TOP: usize = 40;
/// The most messages that are drawn: the last ones, which led to the failure.
const MOST_WORDS: usize = 1500;

const STYLE: &str = "body{font:13px system-ui,sans-serif;margin:16px}text{font:11px ui-monospace,monospace}\
    .world{fill:#a40}.judge{fill:#c00;font-weight:bold}line{stroke:#789}.arrow{stroke:#26c;marker-end:url(#a)}\
    pre{white-space:pre-wrap;background:#f4f4f4;padding:8px}";

/// Draws the messages. `command`: the command line that plays them again.
pub fn draw(plan: &Plan, report: &Report, words: &[Word], command: &str) -> String {
    let words = &words[words.len().saturating_sub(MOST_WORDS)..];
    let (clients, members) = (plan.clients.len(), plan.members.len());
    let column = |who: Who| match who {
        Who::Client(client) => Some(110 + client * COLUMN),
        Who::Member(member) => Some(110 + (clients + member) * COLUMN),
        Who::World | Who::Judge => None,
    };
    let width = 110 + (clients + members) * COLUMN + 500;
    let height = TOP + (words.len() + 2) * ROW;
    let mut page = String::new();
    let out = &mut page;
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Seed {seed}</title>\
         <style>{STYLE}</style></head><body><h1>Seed {seed}</h1><p>{violations}</p>\
         <p>Play it again: <code>{command}</code></p><pre>{plan}</pre>\
         <svg width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"who said what to whom\">\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#26c\"/></marker></defs>",
        seed = plan.seed,
        violations = escaped(&report.violations.join("; ")),
        plan = escaped(&format!("{:#?}", plan.faults)),
    );
    for who in (0..clients).map(Who::Client).chain((0..members).map(Who::Member)) {
        if let Some(x) = column(who) {
            let _ = write!(
                out,
                "<text x=\"{x}\" y=\"20\">{who:?}</text><line x1=\"{x}\" x2=\"{x}\" y1=\"28\" y2=\"{height}\"/>"
            );
        }
    }
    for (row, word) in words.iter().enumerate() {
        let y = TOP + row * ROW;
        let _ = write!(out, "<text x=\"4\" y=\"{y}\">{:.3} ms</text>", word.at as f64 / 1000.0);
        let text = escaped(&shortened(&word.text));
        let _ = match (column(word.from), column(word.to)) {
            (Some(from), Some(to)) if from != to => write!(
                out,
                "<line class=\"arrow\" x1=\"{from}\" x2=\"{to}\" y1=\"{y}\" y2=\"{y}\"/>\
                 <text x=\"{}\" y=\"{}\">{text}</text>",
                from.max(to) + 6,
                y + 4
            ),
            (Some(at), _) => write!(out, "<text x=\"{}\" y=\"{}\">{text}</text>", at + 6, y + 4),
            _ => {
                let class = if word.from == Who::Judge { "judge" } else { "world" };
                write!(out, "<text class=\"{class}\" x=\"110\" y=\"{}\">{text}</text>", y + 4)
            }
        };
    }
    page.push_str("</svg></body></html>\n");
    page
}

fn shortened(text: &str) -> String {
    text.chars().take(160).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
