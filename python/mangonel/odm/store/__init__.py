"""Documents in their collections: saving, indexes and schemas, files, mixins."""
