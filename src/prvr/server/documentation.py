"""Show the OpenAPI document as a plain HTML page, without scripts or files from other sites."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_METHODS = ("get", "post", "patch", "delete")


def documentation_page(document: dict[str, Any]) -> str:
    """The whole page: every operation with its parameters and an example, then every schema."""
    operations = "".join(
        _operation_html(path, method, methods[method], document)
        for path, methods in document["paths"].items()
        for method in _METHODS
        if method in methods
    )
    schemas = "".join(
        f"<h3 id='{escape(name)}'>{escape(name)}</h3>{_json_html(schema)}"
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        "<title>prvr API</title><link rel='icon' href='/page/icon.svg'><link rel='stylesheet' href='/page/style.css'>"
        "<body class='docs'><main><h1>prvr API</h1>"
        "<p>For programs: <a href='/v1/openapi.json'>openapi.json</a>. "
        "Errors are <a href='#ProblemDocument'>problem+json</a>.</p>"
        f"{operations}<h2>Schemas</h2>{schemas}</main>"
    )


def _operation_html(path: str, method: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    html = f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p>"
    parameters = "".join(
        f"<li><code>{escape(parameter['name'])}</code> ({escape(parameter['in'])}) "
        f"{escape(parameter.get('description', ''))}</li>"
        for parameter in operation.get("parameters", ())
    )
    if parameters:
        html += f"<ul>{parameters}</ul>"
    content = operation.get("requestBody", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref")
    if reference:
        name = reference.rsplit("/", 1)[-1]
        for example in document["components"]["schemas"][name].get("examples", ()):
            html += _json_html(example)
        html += f"<p>Body: <a href='#{escape(name)}'>{escape(name)}</a></p>"
    return html + f"<p>Status codes: {escape(', '.join(sorted(operation['responses'])))}</p>"


def _json_html(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1))}</pre>"
