"""``prvr convert``: a run's query encoder as a file that other programs run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prvr.cli.console import format_bytes
from prvr.cli.hub_runs import RunPath
from prvr.sharing import SharingError, load_query_tower, write_onnx, write_torch_export
from prvr.terminal import Console
from prvr.training import Run


@dataclass(frozen=True)
class ConvertArguments:
    """Write the query encoder of a run for other programs: `prvr convert RUN --onnx query.onnx`.

    The file takes `words` (queries, length, width of the word features) and `mask` (queries, length; true where a word
    is), for any number of queries and words, and gives `vectors` (queries, width), with which videos are scored. It is
    compared with the model before it gets its name. Method, widths, the data's fingerprint and the hash of the weights
    are in its metadata, as JSON under `prvr`.
    """

    run: Annotated[tyro.conf.Positional[RunPath], tyro.conf.arg(metavar="RUN")]
    """folder of a run, or hf://OWNER/NAME"""
    onnx: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """write ONNX, for ONNX Runtime and others"""
    torch: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """write a program of torch.export (.pt2), for `torch.export.load`"""
    weights: str | None = None
    """which weights: average, best, last or backbone [default: the run's selection]"""


def convert_command(argv: list[str]) -> int:
    arguments = tyro.cli(ConvertArguments, prog="prvr convert", args=argv)
    wanted = [(arguments.onnx, write_onnx), (arguments.torch, write_torch_export)]
    if arguments.onnx is None and arguments.torch is None:
        raise SharingError("say what to write: --onnx query.onnx, --torch query.pt2, or both")
    for path, _ in wanted:
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise SharingError(f"{path} cannot be written: it is a folder, or is in a folder that does not exist")
    tower, described = load_query_tower(Run(arguments.run), arguments.weights)
    console = Console(highlight=False, soft_wrap=True)
    for path, write in wanted:
        if path is not None:
            with Console(stderr=True).status(f"converting to {path}"):
                difference = write(tower, described, path)
            console.print(
                f"wrote {path} ({format_bytes(path.stat().st_size)}): {described.method}, queries of up to "
                f"{described.words} words of width {described.query_width} → {described.width} numbers; largest "
                f"difference to the model {difference:.1g}"
            )
    return 0
