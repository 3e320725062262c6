"""Faults in configs: layers, presets, and what is built from them."""

from typing import Final

from tests.mutants.mutant import Mutant

CONFIG: Final = "config"
TESTS: Final = "tests/unit/config"
RUN_CONFIG: Final = (f"{TESTS}/test_run_config.py",)
BUILD: Final = (f"{TESTS}/test_build.py",)

MUTANTS: Final = (
    Mutant(
        "a preset goes over what the user gives",
        f"{CONFIG}/layers.py",
        "merged[part] = old | new",
        "merged[part] = new | old",
        RUN_CONFIG,
    ),
    Mutant(
        "an exchanged part loses all options",
        f"{CONFIG}/layers.py",
        "for name, value in old.items() if name in options_of(part, new[NAME])}",
        "for name, value in old.items() if name == NAME}",
        RUN_CONFIG,
    ),
    Mutant(
        "a preset lies over the file",
        f"{CONFIG}/run_config.py",
        "document = layers.lay_over(document, read_document(file), settings())",
        "document = layers.lay_over(read_document(file), document, settings())",
        RUN_CONFIG,
    ),
    Mutant(
        "any storage goes with any algorithm",
        f"{CONFIG}/run_config.py",
        "    if storage not in fitting:\n",
        "    if not fitting:\n",
        RUN_CONFIG,
    ),
    Mutant(
        "numbers with an exponent are strings",
        f"{CONFIG}/files.py",
        '[eE][-+]?[0-9]+$")',
        '[eE][-+][0-9]+[.]$")',
        (f"{TESTS}/test_files.py",),
    ),
    Mutant(
        "the weights do not depend on the seed",
        f"{CONFIG}/build.py",
        "obs_space, action_space, algo_factory, seed=config.seed,",
        "obs_space, action_space, algo_factory, seed=0,",
        BUILD,
    ),
    Mutant(
        "the replay holds its size once for each env",
        f"{CONFIG}/build.py",
        "else -(-MOST_TRANSITIONS // config.num_envs)",
        "else MOST_TRANSITIONS",
        BUILD,
    ),
)
