"""The models of PyMODM's tests, which its source distribution does not carry."""

from pymodm import MongoModel, fields


class ParentModel(MongoModel):
    """A model that the others inherit; the tests name these fields, this collection and the limits of `phone`."""

    fname = fields.CharField("Customer first name", primary_key=True)
    lname = fields.CharField()
    phone = fields.IntegerField("Phone #", min_value=1_000_000, max_value=9_999_999)
    foo = "bar"

    class Meta:
        collection_name = "some_collection"


class UserOtherCollection(ParentModel):
    """The same in another collection."""

    class Meta:
        collection_name = "other_collection"


class User(ParentModel):
    """A model with a field of its own."""

    address = fields.CharField()
