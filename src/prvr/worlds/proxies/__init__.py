"""Symbolic-video proxies: real sentences and real moments, frames made of annotations instead of pixels.

A frame is what annotators said happens at its time, embedded, carried into another space by a fixed random map, damaged
and covered with noise. A query is a sentence that somebody else wrote. Nothing here says anything about vision.
"""
