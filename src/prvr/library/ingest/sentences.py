"""Background sentences: common queries, about no particular video.

A library stores how they score on each section. A query that scores no higher than most of them matches no better than
a random sentence.
"""

from __future__ import annotations

from itertools import product

_WHO = (
    "a man", "a woman", "a child", "two people", "a group of people", "a dog", "a cat", "a bird", "a horse", "somebody",
)  # fmt: skip
_DOES = (
    "walks along a street", "runs across a field", "sits at a table", "talks to the camera", "opens a door",
    "eats a meal", "dances in a room", "climbs some stairs", "reads a book", "plays with a ball",
)  # fmt: skip
_THINGS = (
    "a red car drives past", "a blue bicycle leans on a wall", "a yellow bus stops", "a green tree in the wind",
    "a white boat on the water", "a black suitcase on the floor", "an orange sunset over the sea",
    "a purple flower in a garden", "a brown table with food on it", "a grey building in the rain",
    "a pink dress on a chair", "a cyan light in the dark", "something small moves to the left",
    "something large moves to the right", "something rises to the top", "something falls to the bottom",
    "something grows and fills the picture", "something shrinks and disappears", "a thing stands still in the middle",
    "a bright picture", "a dark picture", "a white wall", "a blue sky", "a green meadow", "a red wall",
    "a yellow field",
    "a black screen", "a grey road", "snow on a mountain", "waves on a beach", "rain on a window", "fire in the night",
    "a forest with tall trees", "a river between rocks", "a city seen from above", "a bridge over a river",
    "a train arrives at a station", "an aeroplane takes off", "a ship leaves the harbour", "a lorry on a motorway",
    "a kitchen with white cupboards", "an empty classroom", "an office with computers", "a hospital corridor",
    "a shop full of customers", "a market with fruit", "a stage with musicians", "a stadium full of people",
    "a football match", "a swimming pool", "a basketball game", "a bicycle race", "a person surfing a wave",
    "a skier comes down a slope", "somebody plays the guitar", "somebody plays the piano", "a singer with a microphone",
    "hands cutting vegetables", "hands typing on a keyboard", "a close view of a face", "a close view of an eye",
    "a person puts on a coat", "a person takes off their shoes", "a person drinks from a cup", "a person on the phone",
    "a person writes on a board", "a person washes the dishes", "a person paints a wall", "a person repairs a machine",
    "a person throws something away", "a couple kisses", "two people shake hands", "two people argue",
    "people laughing",
    "people clapping", "a wedding", "a birthday cake with candles", "children on a playground", "a baby in a bed",
    "an old man on a bench", "a teacher in front of a class", "a doctor with a patient", "a soldier in uniform",
    "a police car with its lights on", "an ambulance in the traffic", "a cow on a meadow", "fish in an aquarium",
    "an elephant drinks water", "a monkey in a tree", "insects on a leaf", "a text on the screen", "a map with arrows",
    "a chart with numbers", "the titles at the end of a film", "a drawing of a house", "a cartoon figure jumps",
    "a logo on a plain background", "the moon in the night sky", "clouds passing by", "an explosion with smoke",
)  # fmt: skip

BACKGROUND_SENTENCES: tuple[str, ...] = (*(f"{who} {does}" for who, does in product(_WHO, _DOES)), *_THINGS)
