"""Cursors and change streams: what fetches batch after batch."""
