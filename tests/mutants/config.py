"""Faults in configs: layers, presets, and what is built from them."""

from typing import Final

from tests.mutants.mutant import Mutant

CONFIG: Final = "config"
TESTS: Final = "tests/unit/config"
RUN_CONFIG: Final = (f"{TESTS}/test_run_config.py",)
BUILD: Final = (f"{TESTS}/test_build.py",)
KINDS: Final = (f"{TESTS}/test_kinds.py",)
TUNE: Final = "tests/unit/cli/test_tune.py"
CURVES: Final = ("tests/unit/runs/test_curves.py",)

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
    Mutant(
        "several environments of an untuned task share the updates of one",
        f"{CONFIG}/kinds.py",
        'options["num_mini_batch"] * num_envs',
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
        "cli/study.py",
        "len(study.get_trials(deepcopy=False)))",
        "0)",
        (f"{TUNE}::test_the_same_seed_tries_the_same_and_another_does_not",),
    ),
    Mutant(
        "every trial trains with the same seed",
        "cli/study.py",
        "seed=self.config.seed + number",
        "seed=self.config.seed",
        (f"{TUNE}::test_lists_survive_the_database",),
    ),
    Mutant(
        "options that the user fixed are searched",
        "cli/study.py",
        'if not {path, path.partition(".")[2]} & set(fixed)}',
        "if path not in fixed}",
        (f"{TUNE}::test_options_say_what_is_tried_and_what_is_set_is_fixed",),
    ),
    Mutant(
        "bad trials are trained to their end",
        "cli/study.py",
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
)
