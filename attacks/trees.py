"""Mutation of what has structure: JSON trees, so that a changed file is still nearly a good one."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

Tree = Any  # dict, list, str, int, float, bool or None

# Values at which programs have gone wrong before
NUMBERS: tuple[Tree, ...] = (
    0, 1, -1, 2, 3, 7, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**63 - 1,
    2**63, 2**64, -(2**63), 10**30, 0.0, -0.0, 0.5, -1.5, 1e-320, 1e300, -1e300, 1e308,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS: tuple[str, ...] = (
    "", " ", "0", "-1", "nan", "1e999", "\x00", "a\x00b", "\x1b[2J", "\n", "ä", "\u202e", "\ud800",
    "../secret.txt", "/etc/hosts", "/vsicurl/http://127.0.0.1:9/x", "http://127.0.0.1:9/x", "file:///x",
    "EPSG:4326", "EPSG:0", "+proj=longlat", "<!DOCTYPE x>", "&amp;", "'", '"', "{", "[", "#zzzzzz",
    "#4477AA", "x" * 300, "9" * 5000, "y", "x", "band", "None", "true", "=1+1", "|O", "<f8", "<f16",
)  # fmt: skip


def mutate(tree: Tree, rng: random.Random) -> Tree:
    """Return ``tree`` with one to three of its nodes changed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree = _change(tree, rng)
    return tree


def _change(tree: Tree, rng: random.Random) -> Tree:
    places = list(_places(tree))
    if not places:
        return _other(tree, rng)
    holder, key = rng.choice(places)
    node, (other, there) = holder[key], rng.choice(places)
    match rng.randrange(7):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):  # under another name
            holder[rng.choice(TEXTS)] = node
        case 2:  # what stands elsewhere in the tree
            holder[key] = copy.deepcopy(other[there])
        case 3:
            holder[key] = rng.choice(([], {}, [node], [node] * rng.choice((2, 40, 3000)), None))
        case 4:
            holder[key] = unpack(b"[" * 300 + pack(node) + b"]" * 300)
        case _:
            holder[key] = _other(node, rng)
    return tree


def _other(node: Tree, rng: random.Random) -> Tree:
    if isinstance(node, bool):
        return not node
    if isinstance(node, int | float) and rng.random() < 0.8:
        near = node + rng.choice((-1, 1)) if isinstance(node, int) else node * rng.choice((-1, 1e9))
        return rng.choice((near, rng.choice(NUMBERS)))
    if isinstance(node, str) and rng.random() < 0.8:
        at = rng.randrange(len(node) + 1)
        piece = rng.choice(TEXTS)
        return rng.choice((piece, node[:at] + piece + node[at:], node[:at], node[at:], node * 2))
    return rng.choice((*NUMBERS, *TEXTS, None, True, [], {}))


def _places(tree: Tree) -> Any:
    """Yield (holder, key) of every node below the root."""
    found = [tree]
    while found:
        node = found.pop()
        items = enumerate(node) if isinstance(node, list) else getattr(node, "items", list)()
        for key, item in list(items):
            yield node, key
            found.append(item)


def pack(tree: Tree) -> bytes:
    """Return a tree as JSON text, the form in which it stands in the corpus."""
    return json.dumps(tree, separators=(",", ":")).encode()


def unpack(data: bytes) -> Tree:
    """Return the tree of some JSON text; ValueError or RecursionError if it is none."""
    return json.loads(data.decode())
