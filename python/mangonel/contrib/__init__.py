"""Integrations with other packages; each module needs the one that it is named after."""
