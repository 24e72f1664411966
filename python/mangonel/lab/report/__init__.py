"""What is made of a result file for readers: one HTML page that needs nothing else, and the README's table."""
