"""The base class of PyMODM's tests and the constants that they import, which its source distribution does not carry."""

import unittest

from pymodm import connect
from pymongo import MongoClient

MONGO_URI = "mongodb://localhost:27017"
CLIENT = MongoClient(MONGO_URI)
DB = CLIENT["suite"]
MONGO_VERSION = tuple(CLIENT.server_info()["versionArray"])
VALID_MONGO_NAMES = ["", "end$", "two-words"]
INVALID_MONGO_NAMES = ["$start", "two.parts", "with\0null"]

connect(f"{MONGO_URI}/{DB.name}")


class ODMTestCase(unittest.TestCase):
    """A test that leaves an empty database behind."""

    def tearDown(self):
        """Drop the database."""
        CLIENT.drop_database(DB)

    def assertEqualsModel(self, document, model):  # noqa: N802  # the tests call it
        """Fail unless the model is stored as this document, apart from the name of its class."""
        assert document == {key: value for key, value in model.to_son().items() if key != "_cls"}
