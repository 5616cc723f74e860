"""Seeds derived from other seeds, so that randomness has no state to save."""

from __future__ import annotations


def mix_seed(seed: int, number: int) -> int:
    """One 63-bit seed from two numbers (SplitMix64's finaliser)."""
    z = (seed * 0x9E3779B97F4A7C15 + number + 0x632BE59BD9B4E019) & (2**64 - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (z ^ (z >> 31)) >> 1
