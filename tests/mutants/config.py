"""Faults in configs: layers, presets, and what is built from them."""

from typing import Final

from tests.mutants.mutant import Mutant

CONFIG: Final = "config"
TESTS: Final = "tests/unit/config"
RUN_CONFIG: Final = (f"{TESTS}/test_run_config.py",)
BUILD: Final = (f"{TESTS}/test_build.py",)
KINDS: Final = (f"{TESTS}/test_kinds.py",)
TUNE: Final = "tests/unit/cli/commands/test_tune.py"
CURVES: Final = ("tests/unit/runs/test_curves.py",)
TRUST: Final = (f"{TESTS}/test_trust.py",)
DESCRIBE: Final = (f"{TESTS}/test_describe.py",)
REGISTRY: Final = ("tests/unit/agent/test_registry.py",)
WRAPPING: Final = ("tests/unit/agent/test_wrapping.py",)
API: Final = ("tests/unit/test_api.py",)

MUTANTS: Final = (
    Mutant(
        "callbacks of the config are forgotten",
        "api.py",
        'callbacks=[*named_callbacks(config), *check_list("callbacks", callbacks)]',
        "callbacks=callbacks",
        ("tests/unit/callbacks/test_named.py",),
    ),
    Mutant(
        "tasks with goals are not relabelled",
        f"{CONFIG}/kinds.py",
        'STORAGE: {**storage, NAME: "her"}',
        "STORAGE: document[STORAGE]",
        KINDS,
    ),
    Mutant(
        "a run with one point takes the curve of the others away",
        "runs/curves.py",
        "[curve for curve in curves if len(curve.steps) > 1] or list(curves)",
        "list(curves)",
        ("tests/unit/runs/test_plots.py",),
    ),
    Mutant(
        "what fails in own code is told without where",
        "cli/command.py",
        'if own else ""',
        'if not own else ""',
        ("tests/unit/cli/test_mistakes.py",),
    ),
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
        "document = layers.overlay(document, from_file, settings())",
        "document = layers.overlay(from_file, document, settings())",
        RUN_CONFIG,
    ),
    Mutant(
        "any storage goes with any algorithm",
        f"{CONFIG}/run_config.py",
        "    if issubclass(storage_class, tuple(others.values())):\n",
        "    if issubclass(storage_class, ()):\n",
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
        "else -(-MAX_TRANSITIONS // config.num_envs)",
        "else MAX_TRANSITIONS",
        BUILD,
    ),
    Mutant(
        "several environments of an untuned task share the updates of one",
        f"{CONFIG}/kinds.py",
        'options["num_mini_batch"] * num_all',
        'options["num_mini_batch"]',
        KINDS,
    ),
    Mutant(
        "continuous actions get the preset of discrete ones",
        f"{CONFIG}/kinds.py",
        '"vector-continuous": isinstance(action_space, Box)',
        '"vector-continuous": False',
        KINDS,
    ),
    Mutant(
        "a preset by kind applies where the algorithm cannot act",
        f"{CONFIG}/kinds.py",
        "return name if can_act else None",
        "return name",
        KINDS,
    ),
    Mutant(
        "a resumed tuning draws again what was tried",
        "cli/tuning/study.py",
        "num_trials = len(study.get_trials(deepcopy=False))",
        "num_trials = 0",
        (f"{TUNE}::test_the_same_seed_tries_the_same_and_another_does_not",),
    ),
    Mutant(
        "every trial trains with the same seed",
        "cli/tuning/study.py",
        "seed=self.config.seed + number",
        "seed=self.config.seed",
        (f"{TUNE}::test_lists_survive_the_database",),
    ),
    Mutant(
        "options that the user fixed are searched",
        "cli/tuning/study.py",
        'if not {path, path.partition(".")[2]} & set(fixed)}',
        "if path not in fixed}",
        (f"{TUNE}::test_options_say_what_is_tried_and_what_is_set_is_fixed",),
    ),
    Mutant(
        "bad trials are trained to their end",
        "cli/tuning/study.py",
        "and trial.should_prune()",
        "and not trial",
        (f"{TUNE}::test_a_trial_that_does_worse_than_others_did_is_ended_early",),
    ),
    Mutant(
        "training returns pass for those of evaluations",
        "runs/curves.py",
        "return Returns(training, metrics.TRAIN_RETURN)",
        "return Returns(training, metrics.EVAL_RETURN)",
        CURVES,
    ),
    Mutant(
        "files are always trusted",
        f"{CONFIG}/trust.py",
        "    if reaches:\n",
        "    if not reaches:\n",
        TRUST,
    ),
    Mutant(
        "what the caller gives needs trust",
        f"{CONFIG}/trust.py",
        "references(document).difference(given)",
        "references(document)",
        TRUST,
    ),
    Mutant(
        "names in lists are not looked at",
        f"{CONFIG}/trust.py",
        "    elif isinstance(value, (list, tuple)):\n",
        "    elif isinstance(value, tuple):\n",
        TRUST,
    ),
    Mutant(
        "an id with a module is no code",
        f"{CONFIG}/trust.py",
        "is_reference(text) or (is_name and",
        "is_reference(text) and (is_name and",
        TRUST,
    ),
    Mutant(
        "only tidy references are code",
        f"{CONFIG}/trust.py",
        ' or (is_name and ":" in text and not text.startswith(NOT_IMPORTABLE))',
        "",
        TRUST,
    ),
    Mutant(
        "the file's layer is not asked about",
        f"{CONFIG}/run_config.py",
        "        check_trust(from_file, str(file), trust=trust)\n",
        "",
        TRUST,
    ),
    Mutant(
        "a run's config is not asked about",
        f"{CONFIG}/run_config.py",
        "        check_trust(document, source, trust=trust, given=given)\n",
        "",
        TRUST,
    ),
    Mutant(
        "addresses of clusters need no trust",
        f"{CONFIG}/trust.py",
        '    f"{SCHEME}.ray_address": "join the Ray cluster",\n',
        "",
        TRUST,
    ),
    Mutant(
        "a part that is given again does not replace the file's",
        f"{CONFIG}/layers.py",
        "NAME: given_name(name, value)}\n        elif name in _LISTS",
        "NAME: document[name][NAME]}\n        elif name in _LISTS",
        TRUST,
    ),
    Mutant(
        "a script's own classes pass for importable",
        "agent/registry.py",
        "if found is part and module != _MAIN else",
        "if found is part or module == _MAIN else",
        REGISTRY,
    ),
    Mutant(
        "a class that is defined again takes the place of the first",
        "agent/registry.py",
        "is part or place == name)",
        "is part or place)",
        REGISTRY,
    ),
    Mutant(
        "packages take the names of built-in parts",
        "agent/registry.py",
        "for places in (self.built_in, self._registered, self._given, self._installed):\n            if",
        "for places in (self._installed, self.built_in, self._registered, self._given):\n            if",
        REGISTRY,
    ),
    Mutant(
        "registered names travel to processes that do not know them",
        "agent/registry.py",
        "return name if name in self.built_in else self.find(value)",
        "return name",
        REGISTRY,
    ),
    Mutant(
        "the last wrapper is innermost",
        "agent/wrapping.py",
        "    for wrapping in wrappings:\n",
        "    for wrapping in reversed(list(wrappings)):\n",
        WRAPPING,
    ),
    Mutant(
        "environments to test in are not compared with those to train in",
        f"{CONFIG}/describe.py",
        "or _task(test_envs) != _task(envs)):\n",
        "or not test_envs):\n",
        DESCRIBE,
    ),
    Mutant(
        "networks of one's own are not kept",
        f"{CONFIG}/parts.py",
        "return value if option.kind is None or value is None else",
        "return value if option.kind is None or value else",
        API,
    ),
)
