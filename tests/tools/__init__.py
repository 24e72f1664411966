"""Tools for tests of every floor: servers that misbehave on request. They use PyMongo's bson, never ours."""
