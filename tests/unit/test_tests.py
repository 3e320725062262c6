"""What holds for the tests themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

PERSISTENCE = "unit/agent/storages/experience/persistence"

# Private names that tests use of other objects, by file, each with the reason. What a test needs to know, a user or
# an operator needs too: prefer to make it public, or to test it through behaviour.
ALLOWED = {
    (f"{PERSISTENCE}/test_journal.py", "_MAX_BYTES"): "a limit that no quick test reaches",
    (f"{PERSISTENCE}/test_snapshot.py", "_CHUNK_BYTES"): "a limit that no quick test reaches",
    ("unit/scheme/collection/worker/test_evaluation.py", "_LONG_EPISODE"): "a limit that no quick test reaches",
    ("unit/agent/storages/experience/store/test_allocator.py", "_exit"): "os._exit: ends a fork without cleaning up",
    ("unit/agent/actors/networks/mlp/test_layers.py", "_WARM_UP"): "a limit that no quick test reaches",
    ("zygote.py", "_exit"): "os._exit: ends a fork without cleaning up",
    ("unit/agent/kernels/test_products.py", "_exit"): "os._exit: ends a fork without cleaning up",
    ("unit/agent/algorithms/on_policy/test_clipped.py", "_replace"): "public, by the rules of NamedTuple",
    ("unit/agent/storages/off_policy/test_nstep_replay_storage.py", "_fields"): "public, by the rules of NamedTuple",
}
MAX_ALLOWED = 14


def private_uses(tree: ast.AST) -> Iterator[str]:
    """Private names of other objects: read, written, patched by name or imported; own ones are left out."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _is_own_object(node.value):
            names = [node.attr]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("getattr", "setattr", "delattr")):
            names = [arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("_") and not name.startswith("__") and name not in own)


def _is_own_object(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def test_private_names_are_used_only_where_a_reason_is_given() -> None:
    used = {
        (str(path.relative_to(TESTS)), name)
        for path in TESTS.rglob("*.py")
        for name in private_uses(ast.parse(path.read_text()))
    }
    assert used - ALLOWED.keys() == set(), "make it public, or test it through behaviour"
    assert ALLOWED.keys() - used == set(), "no longer used: take it from the list"
    assert len(ALLOWED) <= MAX_ALLOWED


def test_every_way_to_a_private_name_is_seen() -> None:
    source = """
from package import _imported, public

class Own:
    def _method(self): ...

    def method(self):
        return self._mine

Own()._method()
other._read
other._written = 1
monkeypatch.setattr(other, "_patched", 1)
getattr(other, "_asked", None)
other.__doc__
"""
    assert sorted(private_uses(ast.parse(source))) == ["_asked", "_imported", "_patched", "_read", "_written"]
