"""``python benchmarks/fuzz.py``: read many nearly-right inputs with every parser, and keep those that show a fault.

    python benchmarks/fuzz.py --inputs 100000                     # all targets, the inputs of seed 0
    python benchmarks/fuzz.py --targets captions preset --seed 7  # some targets, other inputs
    python benchmarks/fuzz.py --targets video2frames --atheris    # guided by coverage, where atheris is installed

A fault is an error that the parser does not declare, or a parser that does not end. Its input is saved in
tests/fuzz/seeds/TARGET, where the tests read it from then on, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the targets are part of the tests


def instrumented() -> AbstractContextManager[None]:
    """Modules imported inside the ``with`` block tell libFuzzer which of their lines are reached."""
    if "--atheris" not in sys.argv:
        return nullcontext()
    try:
        import atheris
    except ImportError:
        raise SystemExit("atheris is not installed: pip install atheris") from None
    instrumentation: AbstractContextManager[None] = atheris.instrument_imports(
        include=["prvr", "json", "tomllib", "csv"]
    )
    return instrumentation


with instrumented():
    from tests.fuzz.running import drive, keep, scratch
    from tests.fuzz.targets import TARGETS, open_target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="for each target")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS), metavar="TARGET")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", action="store_true", help="one target, guided by coverage")
    args = parser.parse_args()
    if args.atheris:
        return guided(args.targets[0], args.inputs)
    faults = 0
    for name in args.targets:
        began = time.perf_counter()
        outcome = drive(name, args.inputs, args.seed)
        seconds = time.perf_counter() - began
        pace = f"{outcome.inputs:8,} inputs {outcome.inputs / seconds:8,.0f}/s"
        print(f"{name:20} {pace}  {len(outcome.faults)} faults", flush=True)
        for kind, (message, data) in outcome.faults.items():
            faults += 1
            print(f"    {kind}: {message}\n    saved as {keep(name, data)}", flush=True)
    return 1 if faults else 0


def guided(name: str, inputs: int) -> int:
    """Let libFuzzer choose the inputs. It ends its process at the first fault, so it runs in a child process."""
    import atheris

    with scratch() as folder:
        target = open_target(name, folder / "work")
        corpus = folder / "corpus"
        corpus.mkdir()
        for number, document in enumerate(target.target.documents):
            (corpus / str(number)).write_bytes(document)

        def read(data: bytes) -> None:
            try:
                target(data)
            except BaseException:
                print(f"saved as {keep(name, data)}", flush=True)
                raise

        child = os.fork()
        if child == 0:
            kept = f"-artifact_prefix={folder}/"  # not used: the input was saved above
            atheris.Setup([sys.argv[0], f"-runs={inputs}", "-timeout=20", kept, str(corpus)], read)
            atheris.Fuzz()
        return 1 if os.waitpid(child, 0)[1] else 0


if __name__ == "__main__":
    sys.exit(main())
