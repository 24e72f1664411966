"""The web frameworks: how each hands a request to the flows and puts the cookie into the answer. One file for each."""
