"""The blocking classes, under the names of the modules where PyMongo has them for this face."""
