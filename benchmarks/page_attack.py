"""Scripts in everything that the page shows: names of folders and files, tags, subtitle lines, searches, addresses.

``attacks.py page`` runs it in Chromium. A script that runs, an element that is made of text, and a request to another
server are faults; so is a script that only the page's Content-Security-Policy stopped.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import sync_playwright

_SETTLED = 200  # milliseconds after which answers of the server are shown
_RUN = "window.hurt=1"
_EVENTS = ("onerror", "onload", "onfocus autofocus", "onmouseover", "ontoggle", "onanimationstart")
_TAGS = ("img src=x", "svg", "body", "input", "details open", "video src=x", "iframe", "marquee", "x-hurt")
_SCHEMES = ("javascript:", "JaVaScRiPt:", "java\tscript:", "data:text/html,", "vbscript:", " \x01javascript:")
_OUT = ("", '"', "'", "`", '">', "'>", "</title>", "</script>", "</textarea>", "-->", "]]>", "${", "{{", "&lt;")
_OTHERS = (
    f"<script>{_RUN}</script>", f"<script/src=data:,{_RUN}></script>", f"<ScRiPt>{_RUN}</sCrIpT>", "<x-hurt>",
    "<base href=//hurt.test>", f"<meta http-equiv=refresh content=0;url=javascript:{_RUN}>", "__proto__", "constructor",
    "<link rel=stylesheet href=//hurt.test/x.css>", "<style>@import'//hurt.test'</style>", "\ufeff<x-hurt>",
    f"<math><mtext><x-hurt onclick={_RUN}>", f"<svg><script>{_RUN}</script></svg>", "<img src=//hurt.test/x>",
    f"<template><x-hurt></template><script>{_RUN}</script>", f"<noscript><p title='</noscript><x-hurt onload={_RUN}>'>",
    "<iframe srcdoc='<script>parent.hurt=1</script>'>", f"<object data=javascript:{_RUN}>", f"\u202e<x-hurt>{_RUN}",
    f"<embed src=javascript:{_RUN}>", "<form action=//hurt.test><button>x</button></form>", f"${{{_RUN}}}",
    f"{{{{constructor.constructor('{_RUN}')()}}}}", f"&#60;script&#62;{_RUN}&#60;/script&#62;",
)  # fmt: skip


def scripts(chance: random.Random, count: int) -> list[str]:
    """Different texts that would run a script, or make an element, where text is taken for HTML."""
    made = [
        f"{out}<{tag} {event.split()[0]}={_RUN} {' '.join(event.split()[1:])}>"
        for out, tag, event in itertools.product(_OUT, _TAGS, _EVENTS)
    ]
    links = itertools.product(_OUT, _SCHEMES, ("", '"'))
    made += [f"{out}<a href={quoted}{scheme}{_RUN}{quoted}>x</a>" for out, scheme, quoted in links]
    return [*_OTHERS, *chance.sample(made, len(made))][:count]


def fill_with_scripts(folder: Path, film: Path, payloads: list[str]) -> list[list[str]]:
    """One film for each text, which is in its name, in its lines and in its tags. Returns the tags."""
    for number, payload in enumerate(payloads):
        name = folder / f"{number} {payload.encode()[:180].decode(errors='ignore')}.mp4"  # a slash begins a folder
        name.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(film, name)
        with name.open("ab") as file:  # another content: the same film would be one hit
            file.write(b"\x00\x00\x00\x10free" + number.to_bytes(8, "big"))
        line = payload.replace("\n", " ")
        name.with_suffix(".srt").write_text(f"1\n00:00:00,000 --> 00:00:01,000\nparrot {line}\n", "utf-8")
    return [[payload.replace(",", " ")[:60].strip() or "empty"] for payload in payloads]


def watch_the_page(address: str, payloads: list[str]) -> Iterator[str]:
    """Browse, search and play all of it; then open addresses with each text in each place."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as started:
        options = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = started.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page(base_url=address)
        faults: list[str] = []
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: faults.append(f"error {error}"))
        page.on("console", lambda said: "Content Security" in said.text and faults.append(said.text[:300]))
        page.on("request", lambda asked: _is_foreign(asked.url, address) and faults.append(f"request {asked.url}"))
        for where in _places(payloads):
            page.goto(where)
            page.wait_for_selector("#holds[data-videos]")
            page.wait_for_timeout(_SETTLED)
            faults += _look(page)
            yield from (f"FAULT {where}: {fault}" for fault in faults) if faults else ("shown as text",)
            faults.clear()
        for number in range(len(payloads)):  # scrolled to, opened and edited
            page.goto(f"/?video={number + 1}&q=parrot")
            page.wait_for_selector("#playing:not(:empty)", state="attached")
            page.wait_for_timeout(_SETTLED)
            faults += _look(page)
            yield from (f"FAULT video {number + 1}: {fault}" for fault in faults) if faults else ("played as text",)
            faults.clear()
        browser.close()


def _places(payloads: list[str]) -> Iterator[str]:
    yield from ("/", "/?sort=name", "/?failed=1", "/?q=parrot", "/?q=parrot&group=moment")
    names = ("q", "folder", "tag", "like", "group", "sure", "after", "video", "t", "sort", "trace")
    for payload, name in zip(payloads, itertools.cycle(names), strict=False):
        yield f"/?{name}={quote(payload, safe='')}"
        yield f"/?q=parrot&{name}={quote(payload, safe='')}#picture={quote(payload, safe='')}"


def _is_foreign(url: str, address: str) -> bool:
    return not url.startswith((address, "data:image", "blob:"))


def _look(page: Any) -> list[str]:
    found = page.evaluate(
        """() => ({
            hurt: window.hurt,
            made: [...document.querySelectorAll('x-hurt,base,iframe,object,embed,math,marquee')].map((e) => e.tagName),
            on: [...document.querySelectorAll('*')].filter((e) => [...e.attributes].some((a) => a.name.startsWith('on')
                || /^\\s*(javascript|vbscript|data:text)/i.test(a.value) && ['href', 'src', 'action'].includes(a.name)))
                .map((e) => e.outerHTML.slice(0, 200)),
        })"""
    )
    return [f"{name}: {value}" for name, value in found.items() if value]
