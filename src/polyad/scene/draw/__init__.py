"""Scenes, maps and scores as pictures."""
