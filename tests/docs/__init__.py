"""The documentation's own tests: its code runs, its links lead somewhere, its reference says what it must."""
