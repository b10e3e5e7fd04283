"""Find phrases that read as translated, and say what to write instead: `make words`.

    python tools/words.py FILE...

A line that has to show such a phrase, as this table does, ends with ``words: ok``.
"""

import re
import sys
from pathlib import Path

INSTEAD = {
    r"another (day's )?light\b|other days' light": "radiometric shift; radiometric normalization",
    r"by its own labels": "spatial cross-validation",
    r"sets? with a promise|the promise of (the )?sets": "guaranteed coverage",
    r"of no kind that": "unsupported file format",
    r"\bwanted\b[^.;]*\bgot\b": "expected X, got Y",
    r"nothing (is|was) left half|nothing half": "no partial files",
    r"describes no valid": "is not a valid ...",
    r"was not taken": "was not saved",
    r"cannot be told\b(?! apart)": "unsure; cannot be determined",
    r"models? of values|map of values": "regression model; map of a target",
    r"(in|with) one sentence|a sentence that says": "a clear error message",
    r"what one may|one would put": "name who does it",
    r"is yours\b": "name the reader: you ...",
    r"of which one\b|where it is not plain": "rephrase",
    r"keeps? its promise|promises? too much": "coverage holds; is optimistic",
    r"\b(corrupt|broken) are read as their neighbors": "are replaced by their neighbors",
    r"no file of ours": "not written by polyad",
}  # words: ok
PHRASE = {re.compile(phrase, re.IGNORECASE): advice for phrase, advice in INSTEAD.items()}


def faults(path: Path) -> list[str]:
    """Return a line for each phrase in a file that has better words."""
    found = []
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        for phrase, advice in PHRASE.items():
            match = phrase.search(line)
            if match and not line.rstrip().endswith("words: ok") and path != Path(__file__):
                found.append(f"{path}:{number}: {match[0].strip()!r}; write: {advice}")
    return found


if __name__ == "__main__":
    here = Path(__file__).resolve()
    lines = [
        line for name in sys.argv[1:] if Path(name).resolve() != here for line in faults(Path(name))
    ]
    print("\n".join(lines) or "words: nothing found")
    sys.exit(bool(lines))
