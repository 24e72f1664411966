"""Sites for the experiment `live`: the demo's web process with nobody looking, and with browsers on its live page.

With the browsers at another web process the machine has the same work, and the process that is asked has none of it:
what it loses then is the processor's, not its own.
"""

from __future__ import annotations

from mangonel.lab.contender import Contender

LIVE = "live"
WATCHED = "live-watched"
BROWSERS = {"live-alone": 0, "live-beside": 200, "live-200": 200}
BESIDE = "live-beside"
TITLES = {
    "live-alone": "the demo, no browsers",
    "live-beside": "the demo, 200 browsers at another process",
    "live-200": "the demo, 200 browsers",
}

CONTENDERS = tuple(
    Contender(
        id=name,
        title=TITLES[name],
        offers=frozenset({LIVE, WATCHED} if count and name != BESIDE else {LIVE}),
        packages=("mangonel", "tornado", "msgspec", "annotated_types"),
    )
    for name, count in BROWSERS.items()
)
