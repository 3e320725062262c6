"""Config files are read as people write them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.config.files import parse_overrides, parse_value, read_document, write_document
from recollect.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.6", 0.6),
        ("3", 3),
        ("20_000", 20_000),
        ("1e-3", 1e-3),
        ("-2.5E4", -2.5e4),
        ("3.e-4", 3e-4),
        ("true", True),
        ("none", None),
        ("None", None),
        ("null", None),
        ("[64, 64]", [64, 64]),
        ("{pixels: 4}", {"pixels": 4}),
        ("relu", "relu"),
        ("Pendulum-v1", "Pendulum-v1"),
        ("nonetheless", "nonetheless"),
        ("e3", "e3"),
    ],
)
def test_values_have_the_types_that_they_look_like(text: str, value: Any) -> None:
    read = parse_value(text)
    assert read == value
    assert type(read) is type(value)


def test_overrides_split_at_the_first_equals_sign() -> None:
    assert parse_overrides(["storage=per", "storage.path=a=b"]) == {"storage": "per", "storage.path": "a=b"}


def test_a_name_is_a_text_whatever_it_looks_like() -> None:
    assert parse_overrides(["env.name=5", "env.size=5"]) == {"env.name": "5", "env.size": 5}


@pytest.mark.parametrize("text", ["storage", "=per", ""])
def test_an_override_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        parse_overrides([text])


def test_yaml_and_toml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("algo: sac\nstorage: {name: per, alpha: 6e-1}\n")
    (tmp_path / "run.toml").write_text('algo = "sac"\n[storage]\nname = "per"\nalpha = 6e-1\n')
    assert read_document(tmp_path / "run.yaml") == read_document(tmp_path / "run.toml")


def test_what_was_written_is_read_again_in_order(tmp_path: Path) -> None:
    document = {"storage": {"name": "per", "alpha": 1e-7}, "algo": "sac", "threads": None, "sizes": [64, 64]}
    write_document(document, tmp_path / "run.yaml")
    read = read_document(tmp_path / "run.yaml")
    assert read == document
    assert list(read) == list(document)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.yaml", "a: [1", "not valid YAML"),
        ("run.toml", "a = ", "not valid TOML"),
        ("run.yaml", "- 1", "must be a mapping"),
        ("run.json", "{}", "ends in .yaml, .yml or .toml"),
        ("run.yaml", "a: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("run.yaml", "a: 2024-13-45", "not valid YAML"),
        ("run.yaml", "a: !!timestamp soon", "not valid YAML"),
        ("run.yaml", "a: !!bool perhaps", "not valid YAML"),
        ("run.yaml", "a: 12:30", "at most 400 digits and no colon, got '12:30'"),
        ("run.yaml", "a: 0x" + "f" * 400, "at most 400 digits"),
        ("run.yaml", "algo: {name: 5}", "the name of algo must be a string, got 5"),
        ("run.toml", "[env]\nname = 5", "the name of env must be a string, got 5"),
        ("run.yaml", "storage: {name: per, 3: 4}", "names must be strings, got 3"),
        (
            "run.yaml",
            "seed: 1\nsteps: 5\nseed: 2",
            "not valid YAML: line 3, column 1: 'seed' is given twice; keep one of them",
        ),
        ("run.yaml", "storage: {alpha: 0.6, alpha: 0.7}", "'alpha' is given twice"),
        ("run.toml", "seed = 1\nseed = 2", "not valid TOML: Cannot overwrite a value"),
        ("run.yaml", "3: 4", "names must be strings, got 3"),
        ("run.yaml", "algo: {name: s\xe4c}", "is not in UTF-8"),
        ("run.toml", "algo = 's\xe4c'", "is not in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=message) as caught:
        read_document(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_what_is_merged_in_may_be_overridden(tmp_path: Path) -> None:
    text = "algo: {deep: {er: &most {<<: &some {a: 1, b: 1}, b: 2}}}\nstorage: {<<: *most, b: 3}\n"
    (tmp_path / "run.yaml").write_text(text)
    read = read_document(tmp_path / "run.yaml")
    assert read == {"algo": {"deep": {"er": {"a": 1, "b": 2}}}, "storage": {"a": 1, "b": 3}}


def test_files_are_in_utf_8(tmp_path: Path) -> None:
    write_document({"device": "Gerät"}, tmp_path / "run.yaml")
    assert (tmp_path / "run.yaml").read_bytes() == "device: Gerät\n".encode()
    assert read_document(tmp_path / "run.yaml") == {"device": "Gerät"}


def test_numbers_of_numpy_and_paths_are_written_as_what_they_say(tmp_path: Path) -> None:
    document = {"gamma": np.float64(0.9), "sizes": (np.int64(3), 4), "on": np.bool_(True), "path": tmp_path}
    write_document(document, tmp_path / "run.yaml")
    assert read_document(tmp_path / "run.yaml") == {"gamma": 0.9, "sizes": [3, 4], "on": True, "path": str(tmp_path)}


def test_what_cannot_be_written_is_named_and_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    write_document({"a": 1}, path)
    listed = {"e": [1, {"f": 2}, {"g": Path}]}
    for document, name in (
        ({"a": {"b": Path}}, r"a\.b"),
        ({"c": [1, Path]}, "c"),
        ({"d": Path}, "d"),
        (listed, r"e\.2\.g"),
    ):
        with pytest.raises(ConfigError, match=f"no file can hold {name}=<class "):
            write_document(document, path)
    assert path.read_text() == "a: 1\n"


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no config file 'nowhere\.yaml'"):
        read_document("nowhere.yaml")


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]\n", "a: &a {b: *a}\n"])
def test_aliases_that_stand_for_too_much_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="aliases stand for more than 100,000 values"):
        read_document(path)


MERGES = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
)
WIDE = "a: &a {" + ", ".join(f"x{number}: 1" for number in range(20_000)) + "}\nb: {<<: [" + "*a," * 10_000 + "]}\n"


@pytest.mark.parametrize("text", [MERGES, WIDE], ids=["deep", "wide"])
def test_mappings_that_merge_too_much_are_refused_before_they_are_copied(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="it merges more than 100,000 values"):
        read_document(path)
