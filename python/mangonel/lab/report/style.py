"""The page's style: light and dark, readable from a phone to a wide window; nothing comes from elsewhere."""

from __future__ import annotations

COLOURS = ("#1f5fd0", "#c2570c", "#15803d", "#7c3aed", "#be123c", "#0f766e", "#854d0e", "#475569")
DARK_COLOURS = ("#7aa8ff", "#ffa862", "#6ee79a", "#c4a6ff", "#ff8fa3", "#5fe0d0", "#e6c16a", "#b6c2d2")

_LIGHT = (
    "--paper:#fff;--ink:#181c22;--muted:#566070;--line:#d5dbe3;--soft:#f4f6f9;--ours:#1f5fd0;--peer:#8b97a8;"
    "--noise:#c3cad4;--tag:#566070;--server:#d98a3d;--good:#166534;--bad:#b42318;--badsoft:#fdecea;--goodsoft:#e8f5ec;"
)
_DARK = (
    "--paper:#14171c;--ink:#e8ebf0;--muted:#a3adbb;--line:#363d48;--soft:#1d2229;--ours:#7aa8ff;--peer:#7b8798;"
    "--noise:#4a5361;--tag:#a3adbb;--server:#d9974f;--good:#7ee2a0;--bad:#ff9c92;--badsoft:#3a1d1b;--goodsoft:#16301f;"
)


def _series(colours: tuple[str, ...]) -> str:
    return "".join(f"--c{number}:{colour};" for number, colour in enumerate(colours))


STYLE = (
    f":root{{color-scheme:light dark;{_LIGHT}{_series(COLOURS)}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_DARK}{_series(DARK_COLOURS)}}}}}"
    + """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main,header,footer{max-width:1180px;margin:0 auto;padding:0 16px}
h1{font-size:1.7rem;line-height:1.2;margin:1.6rem 0 .4rem}
h2{font-size:1.35rem;margin:2.6rem 0 .5rem;padding-top:.8rem;border-top:2px solid var(--line)}
h3{font-size:1.05rem;margin:1.6rem 0 .2rem}
p{margin:.4rem 0;max-width:75ch}
a{color:var(--ours)}
.muted,figcaption,small{color:var(--muted)}
figcaption{font-size:.85rem;margin-bottom:.2rem}
.verdict{border-left:5px solid var(--good);background:var(--goodsoft);padding:.6rem .9rem;margin:.8rem 0}
.verdict.unfit{border-color:var(--bad);background:var(--badsoft)}
.verdict ul{margin:.2rem 0;padding-left:1.2rem}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem .9rem;list-style:none;padding:0}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(340px,100%),1fr));gap:1rem 2rem;align-items:start}
figure{margin:.4rem 0;max-width:520px;min-width:0}
svg{width:100%;height:auto;display:block}
svg text{fill:var(--ink);font:12px system-ui,sans-serif}
svg text.small{fill:var(--muted);font-size:11px}
svg text.ours{font-weight:600}
svg text.noise{fill:var(--muted)}
svg text.failed{fill:var(--bad)}
.bar.ours{fill:var(--ours)}.bar.peer{fill:var(--peer)}.bar.noise{fill:var(--noise)}.bar.ours.noise{fill:var(--ours);opacity:.45}
.client{fill:var(--ours)}.server{fill:var(--server)}
.whisker{stroke:var(--ink);stroke-width:1.2;fill:none}
.limit{stroke:var(--bad);stroke-dasharray:4 3;stroke-width:1.2}
.grid{stroke:var(--line);stroke-width:1}
.line{fill:none;stroke-width:2}
.dot{fill:var(--peer);stroke:var(--paper);stroke-width:.6}.dot.ours{fill:var(--ours)}
.dot.hollow{fill:var(--paper);stroke:var(--bad);stroke-width:1.4}
.mark{stroke:var(--paper);stroke-width:1}.mark.ours{fill:var(--ours)}.mark.peer{fill:var(--tag)}
.mark.less{fill:var(--paper);stroke:var(--bad);stroke-width:1.2}
.mark.beaten{fill:var(--paper);stroke:var(--tag);stroke-width:1.4}.mark.ours.beaten{stroke:var(--ours)}
svg text.tag{fill:var(--paper);font-size:9px;font-weight:600}svg text.tag.less,svg text.tag.beaten{fill:var(--ink)}
.front{fill:none;stroke:var(--ours);stroke-width:1.5;stroke-dasharray:5 3}
details{margin:.5rem 0}
summary{cursor:pointer;color:var(--ours)}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.25rem .7rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600}
td.n,th.n{text-align:right;white-space:nowrap}
tr.noise td{color:var(--muted)}
tr.failed td{color:var(--bad)}
tr.ours td:first-child,tr.ours th{font-weight:600}
.met{color:var(--good)}.unmet{color:var(--bad)}
footer{margin-top:3rem;padding-bottom:2rem;color:var(--muted);font-size:.85rem}
"""
    + "".join(f".line.c{number}{{stroke:var(--c{number})}}" for number in range(len(COLOURS)))
    + "".join(
        f".line.c{number}{{stroke-dasharray:{dash}}}"
        for number, dash in ((1, "7 3"), (2, "2 3"), (3, "9 3 2 3"), (5, "4 2"), (6, "1 2"), (7, "12 4"))
    )
)
