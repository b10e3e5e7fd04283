"""Print the version, which stands in pyproject.toml alone; releases compare their tag with it."""

import tomllib
from pathlib import Path

if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    print(tomllib.loads(text)["project"]["version"])
