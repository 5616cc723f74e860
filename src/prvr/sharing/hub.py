"""Push runs to the Hugging Face hub, and load them from there.

load_run("OWNER/NAME")                 # or "hf://OWNER/NAME@v1.0", or a folder that ``write_layout`` wrote
push_run(shared, "OWNER/NAME", card)   # one commit, which appears whole or not at all

The hub's own client does the work: it takes the token from ``HF_TOKEN`` or ``hf auth login``, the address from
``HF_ENDPOINT``, and keeps what it downloads in its cache, which is used when the hub cannot be reached.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from prvr.errors import UserError, printable
from prvr.media import require_hub
from prvr.sharing.layout import (
    CONFIG_FILE,
    LAYOUT_FILES,
    MODEL_FILE,
    SharedRun,
    SharingError,
    read_layout,
    write_layout,
)
from prvr.training import Run

SCHEME = "hf://"
LOADED_RUNS = Path("runs") / "hub"  # loaded runs are folders in here, one for each revision
_ADDRESS = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[^@\s]+))?")


class HubAddress(NamedTuple):
    """A repository on the hub.

    >>> str(HubAddress.parse("hf://ann/charades@v1"))
    'hf://ann/charades@v1'
    """

    name: str
    revision: str | None = None

    @staticmethod
    def parse(text: str) -> HubAddress:
        """Read ``[hf://]OWNER/NAME[@REVISION]``. Raises ``SharingError`` for anything else."""
        found = _ADDRESS.fullmatch(text.removeprefix(SCHEME))
        if found is None:
            raise SharingError(f"{text!r} is no address on the hub: expected OWNER/NAME or hf://OWNER/NAME@REVISION")
        return HubAddress(found["name"], found["revision"])

    @staticmethod
    def for_push(text: str) -> HubAddress:
        """The same for a push, which makes a revision of its own and so takes none."""
        address = HubAddress.parse(text)
        if address.revision is not None:
            raise SharingError(f"{text}: a push makes a revision of its own; leave out @{address.revision}")
        return address

    def __str__(self) -> str:
        return SCHEME + self.name + (f"@{self.revision}" if self.revision else "")


def load_run(place: str | Path, runs: Path = LOADED_RUNS) -> Run:
    """A run from the hub, or from a folder in the hub's layout.

    Args:
        place: ``OWNER/NAME``, ``hf://OWNER/NAME@REVISION``, or a folder.
        runs: where loaded runs are kept; evaluations and reports of a run are written there too.

    Raises:
        SharingError: it cannot be found, reached or used.
    """
    folder = Path(place)
    if (folder / CONFIG_FILE).is_file():
        digest = hashlib.sha256((folder / CONFIG_FILE).read_bytes()).hexdigest()
        return read_layout(folder, runs / f"{folder.resolve().name}-{digest[:12]}", str(folder))
    address = HubAddress.parse(str(place))
    folder = _download(address)
    commit = folder.name  # the client names its folders by commit
    target = runs / f"{address.name.replace('/', '--')}-{commit[:12]}"
    return read_layout(folder, target, f"{SCHEME}{address.name}@{commit}")


def _download(address: HubAddress) -> Path:
    """Fetch the files of a shared run into the hub's cache; without a connection, what is there already."""
    api = require_hub().HfApi()
    wanted = {"revision": address.revision, "allow_patterns": list(LAYOUT_FILES)}
    with _explained(address, "read"):
        try:
            info = api.model_info(address.name, revision=address.revision)
        except Exception as problem:  # the client raises whatever its network library does
            if not _is_unreachable(problem):
                raise
            return Path(api.snapshot_download(address.name, **wanted, local_files_only=True))
        names = {file.rfilename for file in info.siblings or []}
        missing = sorted({CONFIG_FILE, MODEL_FILE} - names)
        if missing:
            others = ", ".join(sorted(names - {".gitattributes", "README.md"})[:5]) or "nothing"
            raise SharingError(
                f"{address} has no {' and no '.join(missing)} (it has {printable(others, one_line=True)}). Only what "
                "`prvr push` wrote is loaded; pickled weights are never read"
            )
        return Path(api.snapshot_download(address.name, **wanted))


def push_run(shared: SharedRun, name: str, card: str, *, private: bool = False, message: str | None = None) -> str:
    """Push a run to the hub as one commit, creating the repository where there is none.

    Args:
        shared: the run.
        name: ``OWNER/NAME``.
        card: the text of its model card.
        private: whether a new repository is private.
        message: of the commit.

    Returns:
        the address of the repository.
    """
    hub, address = require_hub(), HubAddress.for_push(name)
    with tempfile.TemporaryDirectory(prefix="prvr-push-") as scratch, _explained(address, "write to"):
        files = write_layout(shared, Path(scratch), card)
        api = hub.HfApi()
        place = api.create_repo(address.name, private=private, exist_ok=True)
        there = set(api.list_repo_files(address.name))
        stale = there & set(LAYOUT_FILES) - {file.name for file in files}
        operations: list[Any] = [hub.CommitOperationDelete(path_in_repo=each) for each in sorted(stale)]
        operations += [hub.CommitOperationAdd(path_in_repo=file.name, path_or_fileobj=file) for file in files]
        title = message or f"prvr: {shared.config.method} on {shared.config.data.collection}"
        api.create_commit(address.name, operations, commit_message=title)
    return str(place)


@contextmanager
def _explained(address: HubAddress, doing: str) -> Iterator[None]:
    """Turn what the hub's client raises into one sentence."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:  # the client raises whatever its network library does
        raise SharingError(_reason(problem, address, doing)) from problem


def _reason(problem: Exception, address: HubAddress, doing: str) -> str:
    status, errors = _status(problem), require_hub().errors
    if isinstance(problem, errors.GatedRepoError):
        return f"{address} is gated: ask for access on its page, and give a token that has it (HF_TOKEN)"
    if isinstance(problem, errors.RevisionNotFoundError):
        return f"{SCHEME}{address.name} has no revision {address.revision!r}"
    if status == 401:
        return (
            f"the hub refused to {doing} {address} (401): the token is wrong or missing, or there is no such "
            "repository. Set HF_TOKEN or run `hf auth login`"
        )
    if status == 403:
        return f"the hub does not let this token {doing} {address} (403): use one that may, or another owner"
    if status == 404 or isinstance(problem, errors.RepositoryNotFoundError):
        return f"there is no {address} on the hub, or it is private and the token may not see it"
    if isinstance(problem, errors.LocalEntryNotFoundError):
        return f"the hub cannot be reached, and {address} was not downloaded before: check the network"
    first = next(iter(str(problem).strip().splitlines()), "") or type(problem).__name__
    return f"could not {doing} {address}: {printable(first, one_line=True)}"


def _status(problem: Exception) -> int | None:
    """The status of the hub's answer; None where there was no answer."""
    return getattr(getattr(problem, "response", None), "status_code", None)


def _is_unreachable(problem: Exception) -> bool:
    status = _status(problem)
    return status >= 500 if status is not None else not isinstance(problem, ValueError)
