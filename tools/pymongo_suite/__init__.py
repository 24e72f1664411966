"""PyMongo's own tests on this driver: what `make pymongo-suite` runs. See `docs/dev/pymongo-suite.md`."""
