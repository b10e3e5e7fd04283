"""``python -m polyad``: the command line."""

from polyad.cli import main

if __name__ == "__main__":
    main()
