"""The sample programs of the mapper's documentation, run and type-checked by the tests."""
