"""Models: annotations to a class with slots and a plan; instances to and from dicts and JSON. Sends nothing."""
