"""Sites for the experiment `live`: the demo's web process with nobody looking, and with browsers on its live page."""

from __future__ import annotations

from mangonel.lab.contender import Contender

LIVE = "live"
WATCHED = "live-watched"
BROWSERS = {"live-alone": 0, "live-200": 200}

CONTENDERS = tuple(
    Contender(
        id=name,
        title=f"the demo, {count or 'no'} browsers",
        offers=frozenset({LIVE, WATCHED} if count else {LIVE}),
        packages=("mangonel", "tornado", "msgspec", "annotated_types"),
    )
    for name, count in BROWSERS.items()
)
