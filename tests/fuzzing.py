"""Forged run folders: files that fit their checksums, and say what no run of ours would have written."""

import copy
import json
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from recollect.files.disk import seal

SETTINGS = "settings"
CHANGES = ["steps", "threads", "num_envs"]
WHOLE = [-1, 0, 1, 2, 7, 2**31, 2**40, 2**62, 2**63, 2**64, -(2**63), 10**30]
NUMBERS = [*WHOLE, 0.5, -0.0, 1e308, float("nan"), float("inf")]
VALUES: list[Any] = [*NUMBERS, None, True, "", "x", "../../etc/passwd", "/dev/zero", [], {}, [1], {"a": 1}, [[[[1]]]]]


def mutations(folder: Path) -> Iterator[tuple[str, Callable[[random.Random], None]]]:
    """Kinds of forgeries of the run in a folder, by name."""
    yield "commit", lambda rng: edit_record(newest_commit(folder), rng)
    yield "manifest", lambda rng: edit_record(newest_manifest(folder), rng)
    yield "piece", lambda rng: edit_bytes(rng.choice(sorted((folder / "storage").glob("*.piece"))), rng)
    yield "arrays", lambda rng: edit_tensors(rng.choice(sorted((folder / "storage").glob("*.safetensors"))), rng)
    for name in ("actor.safetensors", "state.safetensors"):
        yield name, lambda rng, name=name: edit_tensors(newest_commit(folder).parent / name, rng)
    yield "state.json", lambda rng: edit_json(newest_commit(folder).parent / "state.json", rng)
    yield "metrics", lambda rng: edit_bytes(folder / "metrics.csv", rng)
    yield "config", lambda rng: edit_bytes(folder / "config.yaml", rng)
    yield SETTINGS, lambda rng: edit_settings(folder / "config.yaml", rng)
    yield "changes", lambda rng: dump_settings(folder / "resumed.yaml", {rng.choice(CHANGES): rng.choice(VALUES)})
    yield "references", lambda rng: edit_references(newest_commit(folder).parent / "state.json", rng)


def forge(source: Path, target: Path, number: int) -> str:
    """Copy a run, forge one of its files, and make all checksums fit; returns what was done."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    for old in sorted((target / "checkpoints").iterdir())[:-1]:
        shutil.rmtree(old)
    rng = random.Random(number)
    kinds = dict(mutations(target))
    kind = rng.choice(sorted(kinds))
    kinds[kind](rng)
    reseal(target)
    return kind


def newest_commit(folder: Path) -> Path:
    return sorted((folder / "checkpoints").glob("*/commit.json"))[-1]


def newest_manifest(folder: Path) -> Path:
    return sorted((folder / "storage").glob("manifest-*.json"))[-1]


def edit_record(path: Path, rng: random.Random) -> None:
    head, text = path.read_bytes().splitlines()
    content = json.loads(text)
    edit_tree(content, rng)
    write_record(path, json.loads(head), content)


def write_record(path: Path, head: dict[str, Any], content: Any) -> None:
    text = json.dumps(content).encode()
    path.write_bytes(json.dumps({**head, "sha256": seal(text).sha256}).encode() + b"\n" + text + b"\n")


def edit_json(path: Path, rng: random.Random) -> None:
    content = json.loads(path.read_bytes())
    edit_tree(content, rng)
    path.write_bytes(json.dumps(content).encode())


def edit_settings(path: Path, rng: random.Random) -> None:
    """Change values of a config, which stays one that can be parsed."""
    content = yaml.safe_load(path.read_text())
    edit_tree(content, rng)
    dump_settings(path, content)


def dump_settings(path: Path, content: Any) -> None:
    path.write_text(yaml.safe_dump(content))


def edit_references(path: Path, rng: random.Random) -> None:
    """Let parts of a state be other tensors, tensors that there are not, or pairs with keys of any kind."""
    content = json.loads(path.read_bytes())
    names = [holder[key] for holder, key in places_of(content) if key == "#tensor"]
    holder, key = rng.choice(list(places_of(content)))
    pairs = [[rng.choice(VALUES), holder[key]]]
    holder[key] = rng.choice([{"#tensor": rng.choice(names)}, {"#tensor": rng.choice(VALUES)}, {"#items": pairs}])
    path.write_bytes(json.dumps(content).encode())


def edit_tree(content: Any, rng: random.Random) -> None:
    """Change, remove, double or swap something in nested dicts and lists."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        places = list(places_of(content))
        holder, key = rng.choice(places)
        action = rng.random()
        if action < 0.15:
            del holder[key]
        elif action < 0.25 and isinstance(holder, list):
            holder.insert(key, holder[key])
        elif action < 0.4:
            other, other_key = rng.choice(places)
            holder[key] = json.loads(json.dumps(other.get(other_key) if isinstance(other, dict) else other[other_key]))
        elif isinstance(holder[key], int) and action < 0.8:
            holder[key] += rng.choice([-1, 1, 2, 64, -64, 2**20, -(2**40)])
        elif isinstance(holder[key], str) and action < 0.7 and holder[key].startswith("{"):
            inner = json.loads(holder[key])
            edit_tree(inner, rng)
            holder[key] = json.dumps(inner, separators=(",", ":"))
        else:
            holder[key] = copy.deepcopy(rng.choice(VALUES))  # what is edited next must not be shared
        if not content:
            return


def places_of(content: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], (dict, list)):
            yield from places_of(content[key])


def edit_bytes(path: Path, rng: random.Random) -> None:
    """Write words or bytes over a file, most of them at its head; or cut or extend it."""
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 2, 8])):
        limit = len(content) if rng.random() < 0.4 else min(len(content), 200)
        action = rng.random()
        if action < 0.6 and limit >= 8:
            place = rng.randrange(limit // 8) * 8
            word = rng.choice(WHOLE) & (2**64 - 1)
            struct.pack_into("<Q", content, place, word)
        elif action < 0.8 and limit:
            content[rng.randrange(limit)] = rng.randrange(256)
        elif action < 0.9:
            del content[rng.randrange(len(content) + 1) :]
        else:
            content += rng.randbytes(rng.choice([1, 8, 64]))
    path.write_bytes(content)


def edit_tensors(path: Path, rng: random.Random) -> None:
    """Change the head of a safetensors file, or the numbers behind it."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    if rng.random() < 0.5:
        head = json.loads(content[8 : 8 + length])
        if head:
            edit_tree(head, rng)
        text = json.dumps(head).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    else:
        body = bytearray(content)
        for _ in range(4):
            if len(body) >= 8 + length + 8:
                place = rng.randrange(8 + length, len(body) - 7)
                struct.pack_into("<d", body, place, rng.choice([0.0, -1.0, 1e300, float("nan"), float("inf")]))
        path.write_bytes(body)


def reseal(folder: Path) -> None:
    """Make the checksums of a forged run fit, as far as its records can still be read."""
    for path in (folder / "storage").glob("manifest-*.json"):
        fit(path, path.parent, "seals")
    fit(newest_commit(folder), newest_commit(folder).parent, "files")
    fit(newest_commit(folder), folder / "storage", "replay", "manifests")


def fit(path: Path, folder: Path, *keys: str) -> None:
    head, text = path.read_bytes().splitlines()
    content = json.loads(text)
    found = content
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    for name in list(found) if isinstance(found, dict) else ():
        try:
            found[name] = list(seal((folder / name).read_bytes()))
        except (OSError, ValueError):
            continue
    write_record(path, json.loads(head), content)
