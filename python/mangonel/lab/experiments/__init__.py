"""One file per experiment: a module here that defines EXPERIMENT is found, unless its name starts with _."""
