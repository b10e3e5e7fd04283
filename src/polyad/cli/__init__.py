"""The command line: arguments in, one public call each, text or JSON out."""

from collections.abc import Sequence

from polyad.lazy import naming_extras
from polyad.terminal import fail

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; see `polyad.cli.program.main`."""
    try:
        with naming_extras("the command line"):
            from polyad.cli.program import main as run

            run(arguments)
    except ModuleNotFoundError as error:
        if "polyad[" not in str(error):
            raise
        fail(str(error))
