"""`recollect data`: inspect, convert, merge and slice datasets."""

import argparse
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

import numpy as np

from recollect.cli.parsing import CommandParser
from recollect.cli.summary import say
from recollect.data.episode import Episode
from recollect.data.sources import Source, open_source, write_episodes
from recollect.errors import ConfigError

_ABOUT: Final = """\
Inspect, convert, merge and slice datasets. A source is a run folder, the snapshot of a storage, an .npz file of
`recollect data`, or a Minari dataset by name or path. Output is .npz or Minari."""
_EXAMPLES: Final = """\
  recollect data info runs/pendulum-sac-1                             episodes, lengths, returns, spaces
  recollect data convert runs/pendulum-sac-1 --to pendulum/medium-v0  as a Minari dataset
  recollect data convert pendulum/medium-v0 --to medium.npz
  recollect data merge random.npz medium.npz --to both.npz
  recollect data slice medium.npz --to good.npz --episodes 10:60 --min-return -300"""
_ACTIONS: Final = ("info", "convert", "merge", "slice")
_SLICING: Final = ("episodes", "min_return", "max_return", "max_steps")
_NUM_BINS: Final = 10
_BAR: Final = 40


def make_parser() -> CommandParser:
    """Make the parser of `recollect data`."""
    parser = CommandParser("data", _ABOUT, _EXAMPLES)
    parser.add_argument("action", choices=_ACTIONS, help="what to do")
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="where the data are")
    parser.add_argument("--to", metavar="PLACE", help="an .npz file, or name or path of a Minari dataset")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")
    parser.add_argument("--episodes", metavar="A:B", help="slice: episodes A to B, counted from 0")
    parser.add_argument("--min-return", type=float, metavar="X", help="slice: only episodes with a return of X or more")
    parser.add_argument("--max-return", type=float, metavar="X", help="slice: only episodes with a return of X or less")
    parser.add_argument("--max-steps", type=int, metavar="N", help="slice: whole episodes, at most N steps in total")
    parser.add_trust()
    return parser


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    _check_options(options)
    sources = [open_source(place, trust=options.trust) for place in options.sources]
    if options.action == "info":
        for line in describe(sources[0]):
            say(line)
        return 0
    _check_alike(sources, options.sources)
    episodes: Iterable[Episode] = chain.from_iterable(sources)
    if options.action == "slice":
        episodes = _sliced(episodes, options)
    say(f"data: {write_episodes(options.to, episodes, sources[0].spaces, overwrite=options.force)}")
    return 0


def describe(source: Source) -> Iterator[str]:
    """What there is to say of data, line by line."""
    lengths, returns, num_terminated, num_truncated = [], [], 0, 0
    for episode in source:
        lengths.append(len(episode))
        returns.append(episode.total_reward)
        num_terminated += episode.is_terminated
        num_truncated += episode.is_truncated
    if source.spaces.env is not None:
        yield f"environment   {source.spaces.env}"
    yield f"observations  {source.spaces.observation}"
    yield f"actions       {source.spaces.action}"
    num = len(lengths)
    yield (
        f"episodes      {num:,}: {num_terminated:,} terminated, {num_truncated:,} truncated, "
        f"{num - num_terminated - num_truncated:,} cut off"
    )
    yield f"steps         {sum(lengths):,}"
    if num:
        yield f"lengths       {_summary(lengths)}"
        yield f"returns       {_summary(returns)}"
        yield from _histogram(returns)


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options that an action does without, and an action without those that it needs."""
    command = f"`recollect data {options.action}`"
    if options.action != "merge" and len(options.sources) > 1:
        raise ConfigError(f"{command} takes one source, got {len(options.sources)}; merge them")
    given = [name for name in _SLICING if getattr(options, name) is not None]
    if given and options.action != "slice":
        option = given[0].replace("_", "-")
        raise ConfigError(f"{command} takes all episodes, got --{option}; use `recollect data slice`")
    if options.action == "info" and (options.to is not None or options.force):
        raise ConfigError(f"{command} writes nothing; leave out --to and --force, or use `recollect data convert`")
    if options.action != "info" and options.to is None:
        raise ConfigError(f"{command} needs a place to write to: --to data.npz")


def _summary(values: list[int] | list[float]) -> str:
    low, middle, high = np.percentile(values, [0, 50, 100])
    return f"mean {np.mean(values):,.1f}, median {middle:,.1f}, from {low:,.1f} to {high:,.1f}"


def _histogram(returns: list[float]) -> Iterator[str]:
    counts, edges = np.histogram(returns, bins=min(_NUM_BINS, len(set(returns))))
    width = max(len(f"{edge:,.1f}") for edge in edges)
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        bar = "█" * round(_BAR * count / counts.max())
        yield f"  {low:{width},.1f} to {high:{width},.1f}  {bar} {count:,}"


def _check_alike(sources: list[Source], names: list[str]) -> None:
    first = sources[0].spaces
    for source, name in zip(sources, names, strict=True):
        found = source.spaces
        if (found.observation, found.action) != (first.observation, first.action):
            raise ConfigError(f"{name} has other spaces than {names[0]}: {found.observation}, {found.action}")


def _sliced(episodes: Iterable[Episode], options: argparse.Namespace) -> Iterator[Episode]:
    begin, end = _bounds(options.episodes)
    num_left = options.max_steps
    for episode in islice(episodes, begin, end):
        total = episode.total_reward
        if options.min_return is not None and total < options.min_return:
            continue
        if options.max_return is not None and total > options.max_return:
            continue
        if num_left is not None:
            if len(episode) > num_left:
                return
            num_left -= len(episode)
        yield episode


def _bounds(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 0, None
    first, colon, last = text.partition(":")
    if not colon or not all(part == "" or part.isdecimal() for part in (first, last)):
        raise ConfigError(f"--episodes takes two numbers such as 10:60, got {text!r}")
    return int(first or 0), int(last) if last else None
