"""List every public name of polyad with its signature: what a release promises to keep.

`make test` compares the list with tests/public_interface.txt; write it anew with

    python tools/public_interface.py > tests/public_interface.txt
"""

import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterator
from typing import Any

import polyad


def packages() -> Iterator[str]:
    """Yield polyad, each package inside it, and the errors that all of them raise."""
    yield "polyad"
    yield "polyad.errors"
    for module in pkgutil.walk_packages(polyad.__path__, "polyad."):
        if module.ispkg:
            yield module.name


def described(name: str, value: Any) -> Iterator[str]:
    """Yield a line for a public name, and one for each method or property of a class."""
    if not callable(value):
        yield f"{name}: {type(value).__name__}"
        return
    yield name + signature(value)
    if inspect.isclass(value):
        ours = (vars(c) for c in reversed(value.__mro__) if c.__module__.startswith("polyad"))
        members = {key: member for own in ours for key, member in own.items() if is_public(key)}
        for key, member in sorted(members.items()):
            if isinstance(member, property):
                yield f"    .{key}"
            elif inspect.isroutine(member):
                yield f"    .{key}{signature(getattr(value, key))}"


def is_public(member: str) -> bool:
    """Tell the methods that we wrote from those that scikit-learn adds for metadata routing."""
    return not member.startswith("_") and not member.endswith("_request")


def signature(value: Any) -> str:
    """Return names and defaults of the parameters; annotations are left to mypy."""
    if isinstance(value, types.GenericAlias):  # Callable[...]: a signature since Python 3.13 alone
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:
        return ""
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(plain))


def listing() -> str:
    """Return the whole list; names that a package only passes on have their signature once."""
    lines: list[str] = []
    seen: set[int] = set()
    for package in sorted(packages(), key=lambda name: (-name.count("."), name)):
        module = importlib.import_module(package)
        names = getattr(module, "__all__", None)
        if not names:
            continue
        lines += ["", f"# {package}"]
        for name in sorted(names):
            value = getattr(module, name)
            passed_on = id(value) in seen
            lines += [name] if passed_on else described(name, value)
            seen.add(id(value))
    return "\n".join(lines[1:]) + "\n"


if __name__ == "__main__":
    print(listing(), end="")
