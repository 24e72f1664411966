"""One file per contender: a module here that defines CONTENDERS is found, unless its name starts with _."""
