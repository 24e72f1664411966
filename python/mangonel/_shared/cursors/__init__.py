"""Cursors and change streams, which fetch batch after batch."""
