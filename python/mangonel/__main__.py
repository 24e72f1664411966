"""`python -m mangonel` is the command `mangonel`."""

from __future__ import annotations

from mangonel.cli import main

raise SystemExit(main())
