"""Scenes and labels from files, and from the names of known scenes."""
