"""Feature worlds: frame and word features drawn directly, without any video."""
