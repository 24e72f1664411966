"""PyMongo's own tests on this driver, run by `make pymongo-suite`. See `docs/dev/pymongo-suite.md`."""
