"""How the documentation site is built; see build.py."""
