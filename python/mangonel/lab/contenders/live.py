"""Sites for the experiment `live`: the demo's web process with nobody looking, and with browsers on its live page.

With the browsers at another web process the machine has the same work, and the process that is asked has none of it:
what it loses then is the processor's, not its own.
"""

from __future__ import annotations

from mangonel.lab.contender import Contender

LIVE = "live"
WATCHED = "live-watched"
BESIDE = "live-beside"
BROWSERS = {"live-alone": 0, BESIDE: 200, "live-200": 200}
TITLES = {
    "live-alone": "the demo, no browsers",
    BESIDE: "the demo, 200 browsers at another process",
    "live-200": "the demo, 200 browsers",
}
PACKAGES = ("mangonel", "tornado", "msgspec", "annotated_types")

CONTENDERS = tuple(
    Contender(name, title, frozenset({LIVE, WATCHED} if name == "live-200" else {LIVE}), packages=PACKAGES)
    for name, title in TITLES.items()
)
