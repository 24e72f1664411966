"""The public classes, each definition of `_shared` joined with a face; `mangonel.api` names them."""
