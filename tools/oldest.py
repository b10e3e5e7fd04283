"""Print the lowest versions that pyproject.toml allows, as pip constraints."""

import re
import tomllib
from pathlib import Path

# What the lowest versions bring along, kept to its age where the newest only makes noise.
COMPANIONS = [
    "click<8.3",  # deprecates names that typer 0.16 uses; tests turn warnings into errors
    "pyparsing<3.3",  # the same with matplotlib 3.9
]

settings = tomllib.loads(Path("pyproject.toml").read_text())
project = settings["project"]
extras = [*project["optional-dependencies"].values(), settings["dependency-groups"]["dev"]]
for requirement in [*project["dependencies"], *(r for extra in extras for r in extra)]:
    # Type stubs carry a date as their last number, and no test runs them.
    if match := re.match(r"(?!types-)([\w.-]+)>=([\w.]+)$", requirement):
        print(f"{match[1]}=={match[2]}")
print(*COMPANIONS, sep="\n")
