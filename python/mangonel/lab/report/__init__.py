"""Presentations of a result file: one self-contained HTML page, and the README's chart."""
