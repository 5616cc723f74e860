"""Rendered worlds: small films, drawn and encoded on this machine, with sentences about them."""
