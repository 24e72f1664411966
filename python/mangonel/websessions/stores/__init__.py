"""The stores of websessions: one file for each engine, imported only when it is used.

To add one, write its file with a class of the four methods and put its URL schemes into `urls.SCHEMES`; the contract
suite picks it up from there.
"""
