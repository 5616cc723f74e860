"""The OpenAPI document as a plain page: no script, nothing from elsewhere."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_METHODS = ("get", "post", "delete")


def as_html(document: dict[str, Any]) -> str:
    parts = []
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                parts.append(_route(path, method, methods[method], document))
    schemas = document["components"]["schemas"]
    shapes = "".join(f"<h3 id='{escape(n)}'>{escape(n)}</h3>{_code(shape)}" for n, shape in sorted(schemas.items()))
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        "<title>prvr API</title><link rel='stylesheet' href='/page/style.css'>"
        "<body class='docs'><main><h1>prvr API</h1>"
        "<p>For programs: <a href='/v1/openapi.json'>openapi.json</a>. "
        f"Errors are <a href='#ProblemDocument'>problem+json</a>.</p>{''.join(parts)}<h2>Shapes</h2>{shapes}</main>"
    )


def _route(path: str, method: str, about: dict[str, Any], document: dict[str, Any]) -> str:
    rows = "".join(
        f"<li><code>{escape(each['name'])}</code> ({escape(each['in'])}) {escape(each.get('description', ''))}</li>"
        for each in about.get("parameters", ())
    )
    text = f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(about.get('description', ''))}</p>"
    text += f"<ul>{rows}</ul>" if rows else ""
    body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {}).get("$ref")
    if body:
        name = body.rsplit("/", 1)[-1]
        for example in document["components"]["schemas"][name].get("examples", ()):
            text += _code(example)
        text += f"<p>Body: <a href='#{escape(name)}'>{escape(name)}</a></p>"
    return text + f"<p>Answers: {escape(', '.join(about['responses']))}</p>"


def _code(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1))}</pre>"
