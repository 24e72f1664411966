"""The web frameworks: each file passes requests to the flows and puts the cookie into the response."""
