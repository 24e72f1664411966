"""Documents in their collections: saving, indexes and schemas, files, ready-made parts of models."""
