"""``python -m tests.hunt``: rounds with rising numbers until the time is over or an answer is wrong."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.hunt.kinds import round_of
from tests.hunt.playing import Tally, openings, play
from tests.hunt.shrinking import script, shrunk

STATUS_EVERY = 60.0


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    end = time.monotonic() + options.minutes * 60
    tally, told, wrong = Tally(), time.monotonic(), 0
    print(f"hunting on {options.engine} from seed {seed} for {options.minutes:g} minutes", flush=True)
    while time.monotonic() < end and (options.rounds is None or tally.rounds < options.rounds):
        wrong += not _round(seed + tally.rounds, options.engine, tally)
        tally.rounds += 1
        if wrong and not options.keep_going:
            break
        if time.monotonic() - told > STATUS_EVERY:
            told = time.monotonic()
            print(_told(tally, seed), flush=True)
    print(f"{_told(tally, seed)}; {wrong or 'no'} wrong", flush=True)
    return 1 if wrong else 0


def _round(seed: int, engine: str, tally: Tally) -> bool:
    """Whether all answers of a round are right; if not, all that is needed to see it is printed."""
    kind, round_ = round_of(seed, large=engine in ("duckdb", "statements"))
    tally.kinds[kind] += 1
    finding = play(round_, engine, tally)
    if finding is None:
        return True
    print(f"\nWRONG ANSWER on {engine}, seed {seed} ({kind})\n{finding}\n", flush=True)
    short, last = shrunk(round_, engine, finding)
    print(f"# Shown by this script; all of it: make hunt ENGINE={engine} SEED={seed} ROUNDS=1\n", flush=True)
    print(f"{script(short, engine, last)}\n", flush=True)
    return False


def _told(tally: Tally, seed: int) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.kinds.items()))
    return (
        f"{tally.rounds} rounds, seeds {seed} to {seed + max(tally.rounds - 1, 0)} ({kinds}): "
        f"{tally.answers} answers compared, {tally.by_sqlite} of them with SQLite"
    )


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", description=__doc__)
    parser.add_argument("--seed", type=int, help="the number of the first round; any, if it is not given")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--engine", choices=list(openings()), default="duckdb")
    parser.add_argument("--rounds", type=int, help="end after so many rounds")
    parser.add_argument("--keep-going", action="store_true", help="go on after a wrong answer")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
