"""Collections: one file for each kind of operation on their documents, mixed into one class."""
