"""`parse_uri` for blocking programs, under the name of the module where PyMongo has it for this face."""

from __future__ import annotations

from mangonel.uri_parser import parse_uri

__all__ = ["parse_uri"]
