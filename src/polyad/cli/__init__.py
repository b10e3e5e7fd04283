"""The command line: arguments in, one public call each, text or JSON out."""

from polyad.cli.program import main

__all__ = ["main"]
