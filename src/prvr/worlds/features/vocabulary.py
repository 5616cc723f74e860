"""The words of a feature world and the sentences made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prvr.worlds.features.events import Activity

# Two words for everything a sentence can be about; each sentence uses one of them.
VERBS = """
opens/unseals closes/shuts lifts/raises drops/releases throws/tosses catches/grabs pushes/shoves pulls/drags
cleans/wipes washes/rinses paints/colours cuts/slices folds/creases carries/hauls hides/conceals finds/discovers
breaks/smashes repairs/fixes holds/grips shakes/rattles spins/twirls kicks/boots measures/sizes photographs/films
draws/sketches wraps/packs unwraps/unpacks stacks/piles counts/tallies inspects/examines polishes/buffs empties/drains
"""
OBJECTS = """
box/crate cup/mug bottle/flask book/novel phone/handset laptop/computer bag/sack chair/seat table/desk lamp/light
towel/cloth broom/sweeper rope/cord ball/globe hat/cap shoe/sandal jacket/coat knife/blade plate/dish pan/skillet
bucket/pail ladder/stepladder hammer/mallet drill/borer bike/bicycle tyre/wheel flower/blossom basket/hamper
pillow/cushion blanket/quilt camera/camcorder guitar/ukulele drum/bongo mirror/looking-glass picture/photo
curtain/drape umbrella/parasol helmet/hardhat wallet/purse key/keycard
"""
PLACES = """
kitchen/galley garage/workshop garden/backyard beach/seaside gym/weightroom office/workplace library/bookroom
hospital/clinic classroom/schoolroom forest/woods street/roadside market/bazaar stage/theatre pool/poolside
farm/barnyard harbour/dockside attic/loft cellar/basement restaurant/diner station/platform park/playground
laundry/washroom studio/atelier church/chapel
"""
OPENINGS = ("", "", "", "then", "next", "suddenly", "at some point", "in the video")
SUBJECTS = ("a person", "someone", "a man", "a woman", "the person")
ENDINGS = ("", "", "", "for a while", "with one hand", "again", "and looks away", "very slowly")


def synonym_pairs(listed: str, count: int) -> list[tuple[str, str]]:
    """The first ``count`` pairs of synonyms, with a number added where the list is used up.

    >>> synonym_pairs("cup/mug box/crate", 3)
    [('cup', 'mug'), ('box', 'crate'), ('cup-2', 'mug-2')]
    """
    words, numbered = listed.split(), []
    for index in range(count):
        first, _, second = words[index % len(words)].partition("/")
        again = f"-{index // len(words) + 1}" if index >= len(words) else ""
        numbered.append((first + again, second + again))
    return numbered


@dataclass(frozen=True)
class Vocabulary:
    """Every word, and which of them name the same thing."""

    actions: list[tuple[str, str]]
    objects: list[tuple[str, str]]
    topics: list[tuple[str, str]]

    @staticmethod
    def of(actions: int, objects: int, topics: int) -> Vocabulary:
        return Vocabulary(synonym_pairs(VERBS, actions), synonym_pairs(OBJECTS, objects), synonym_pairs(PLACES, topics))

    @property
    def synonyms(self) -> list[tuple[str, str]]:
        return [*self.actions, *self.objects, *self.topics]

    @property
    def fillers(self) -> list[str]:
        """Words that say nothing about the event, each once."""
        phrases = [*OPENINGS, *SUBJECTS, *ENDINGS, "the something in"]
        return list(dict.fromkeys(word for phrase in phrases for word in phrase.split()))

    def sentence(self, event: Activity, mentions: Sequence[str], rng: np.random.Generator) -> str:
        """One way to describe an event; the object or the topic is left out where ``mentions`` does not name it."""

        def either(words: tuple[str, str]) -> str:
            return words[int(rng.integers(2))]

        parts = [
            OPENINGS[int(rng.integers(len(OPENINGS)))],
            SUBJECTS[int(rng.integers(len(SUBJECTS)))],
            either(self.actions[event.action]),
            f"the {either(self.objects[event.object])}" if "object" in mentions else "something",
            f"in the {either(self.topics[event.topic])}" if "topic" in mentions else "",
            ENDINGS[int(rng.integers(len(ENDINGS)))],
        ]
        return " ".join(part for part in parts if part)
