"""Paths, known scenes and earlier outputs: what can be said before any library is imported."""
