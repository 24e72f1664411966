"""The tests of libraries on top of PyMongo, run by `make library-suites` on PyMongo and on this driver."""
