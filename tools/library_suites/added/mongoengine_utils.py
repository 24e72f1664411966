"""The base class of MongoEngine's tests that connect, which its source distribution lacks."""

import unittest

import mongoengine
from mongoengine.connection import get_db

DATABASE = "mongoenginetest"


class MongoDBTestCase(unittest.TestCase):
    """Connects to a database that is dropped before the first test of the class and after the last."""

    @classmethod
    def setUpClass(cls) -> None:
        mongoengine.disconnect_all()
        cls._connection = mongoengine.connect(db=DATABASE)
        cls._connection.drop_database(DATABASE)
        cls.db = get_db()

    @classmethod
    def tearDownClass(cls) -> None:
        cls._connection.drop_database(DATABASE)
        mongoengine.disconnect_all()
