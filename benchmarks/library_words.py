"""``python benchmarks/library_words.py``: how long it takes to find words among subtitle lines and names.

Lines are eight words each, drawn so that the n-th most common word is n times as rare as the first. The vectors and
encoders of a library take no part: this is what the search for words adds to every search.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import accumulate
from random import Random

from rich.console import Console

from prvr.library import ScratchWords, find_words
from prvr.media import TimedLine

VOCABULARY = 50_000
QUERIES = {
    "two rare words": "w20000 w30000",
    "four words, two of them common": "w100 w300 w5000 w9000",
    "one common word": "w200",
    "words that occur nowhere": "quokka bandicoot",
    "the name of a video": "film 17",
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=200, help="of each video")
    parser.add_argument("--times", type=int, default=9, help="that each query is searched")
    arguments = parser.parse_args(argv)
    console, rng = Console(highlight=False), Random(0)
    words = [f"w{number}" for number in range(1, VOCABULARY + 1)]
    shares = list(accumulate(1 / number for number in range(1, VOCABULARY + 1)))

    def lines(numbers: list[int]) -> list[tuple[int, list[TimedLine]]]:
        drawn = (" ".join(rng.choices(words, cum_weights=shares, k=8)) for _ in range(arguments.lines * len(numbers)))
        return [(number, [TimedLine(s, s + 1.0, next(drawn)) for s in range(arguments.lines)]) for number in numbers]

    videos = {number: (f"/films/{number % 20}/film {number}.mp4", (), 0) for number in range(1, arguments.videos + 1)}
    with ScratchWords().holding(1, lambda: videos, lines) as db:
        console.print(f"{arguments.videos * arguments.lines:,} lines of {arguments.videos:,} videos")
        for name, query in QUERIES.items():
            seconds, found = [], 0
            for _ in range(arguments.times):
                began = time.process_time()
                found = len(find_words(db, query))
                seconds.append(time.process_time() - began)
            console.print(f"{name}: {1000 * statistics.median(seconds):.1f} ms of core time, {found} videos")


if __name__ == "__main__":
    main()
