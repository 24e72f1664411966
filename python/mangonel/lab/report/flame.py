"""A flame graph as SVG from stacks and their seconds: wide is long, above is who was called. Needs no script."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

WIDTH = 1200
ROW = 18
LEAST = 0.4  # pixels; what is narrower is not drawn


@dataclass
class _Frame:
    name: str
    seconds: float = 0.0
    calls: dict[str, _Frame] = field(default_factory=dict)


def render(title: str, stacks: Mapping[tuple[str, ...], float]) -> str:
    """Return the graph of seconds by stack, outermost frame first."""
    root = _Frame("all")
    for stack, seconds in stacks.items():
        root.seconds += seconds
        frame = root
        for name in stack:
            frame = frame.calls.setdefault(name, _Frame(name))
            frame.seconds += seconds
    body: list[str] = []
    deepest = _draw(root, 0.0, 0, WIDTH / max(root.seconds, 1e-9), root.seconds, body)
    height = 34 + ROW * (deepest + 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-labelledby="t d"><title id="t">{escape(title)}</title>'
        f'<desc id="d">Flame graph of {root.seconds:.3f} s; a box is a function, its width its share of the time, '
        "and what stands below it is what it called.</desc>"
        "<style>text{font:11px monospace;fill:#181c22}rect{stroke:#fff;stroke-width:.5}</style>"
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="6" y="18" style="font:bold 14px sans-serif">{escape(title)}</text>{"".join(body)}</svg>\n'
    )


def _draw(frame: _Frame, x: float, depth: int, scale: float, total: float, body: list[str]) -> int:
    wide = frame.seconds * scale
    if wide < LEAST:
        return depth
    y = 28 + depth * ROW
    share = f"{frame.name}: {frame.seconds * 1000:.2f} ms, {100 * frame.seconds / max(total, 1e-9):.1f} %"
    fits = int((wide - 6) / 6.7)
    word = frame.name if len(frame.name) <= fits else frame.name[: max(0, fits - 1)] + "…"
    body.append(f"<g><title>{escape(share)}</title>")
    body.append(
        f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{ROW - 1}" rx="2" fill="{_colour(frame.name)}"/>'
    )
    if fits > 2:
        body.append(f'<text x="{x + 3:.1f}" y="{y + 13}">{escape(word)}</text>')
    body.append("</g>")
    deepest = depth
    for called in sorted(frame.calls.values(), key=lambda each: each.name):
        deepest = max(deepest, _draw(called, x, depth + 1, scale, total, body))
        x += called.seconds * scale
    return deepest


def _colour(name: str) -> str:
    """Return a warm colour that one name always has; this package's own frames are blue."""
    digit = hashlib.sha256(name.encode()).digest()[0]
    return (
        f"hsl({212 + digit % 18} 75% {72 + digit % 10}%)"
        if "mangonel/" in name
        else f"hsl({28 + digit % 28} 85% 70%)"
    )
