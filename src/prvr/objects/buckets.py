"""Buckets of object storage, through pyarrow: Amazon S3 and compatible servers, Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from prvr.media import MissingExtra
from prvr.objects.store import ObjectMissing, StoreError

# By default pyarrow waits for minutes. The first request fails sooner, with a message. Later ones are tried longer,
# because work in progress would be lost.
_CONNECT, _REQUEST = 5.0, 30.0  # seconds to connect, and without a byte
FIRST_TRIES, TRIES = 3, 7  # of the first request, and of later ones; pauses double, to about 20 s in all
_GS_OPTIONS = ("scheme", "endpoint_override", "retry_limit_seconds", "project_id")
_S3_OPTIONS = ("region", "scheme", "endpoint_override", "force_virtual_addressing", "anonymous")
_YES = ("1", "true", "yes")


def open_bucket(address: str) -> BucketStore:
    """Open the store at ``s3://bucket/path?endpoint_override=http://host:port&region=…`` or ``gs://bucket/path``."""
    try:
        from pyarrow import fs
    except ImportError as problem:
        raise MissingExtra("pyarrow, which object storage needs,", "objects", problem) from None
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query))
    known = _S3_OPTIONS if parts.scheme.lower() == "s3" else _GS_OPTIONS
    if unknown := sorted(options.keys() - set(known)):  # named without their values, which may be secret
        raise StoreError(
            f"{address.partition('?')[0]}: unknown option {', '.join(unknown)}; the options are {', '.join(known)}"
        )

    def connected(tries: int) -> BucketStore:
        if parts.scheme.lower() == "s3":
            files = fs.S3FileSystem(**_s3_options(options), **_patience(fs, tries))
        else:
            query = urlencode({"retry_limit_seconds": str(6 * tries), **options})
            files, _ = fs.FileSystem.from_uri(f"gs://{parts.netloc}{parts.path}?{query}")
        return BucketStore(address, files, parts.netloc, parts.path.strip("/"))

    try:
        connected(FIRST_TRIES).require_bucket()
        return connected(TRIES)
    except (OSError, ValueError, TypeError) as problem:
        raise StoreError(f"{address} cannot be opened: {_first_line(problem)}") from None


def _s3_options(given: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = dict(given)
    endpoint = given.get("endpoint_override", "")
    if "://" in endpoint:
        options["scheme"], _, options["endpoint_override"] = endpoint.partition("://")
        options["endpoint_override"] = options["endpoint_override"].rstrip("/")
    for name in ("force_virtual_addressing", "anonymous"):
        if name in given:
            options[name] = given[name].lower() in _YES
    return options


def _patience(fs: Any, tries: int) -> dict[str, Any]:
    strategy = fs.AwsStandardS3RetryStrategy(max_attempts=tries)
    return {"connect_timeout": _CONNECT, "request_timeout": _REQUEST, "retry_strategy": strategy}


class BucketStore:
    """Objects under a path of a bucket."""

    def __init__(self, address: str, files: Any, bucket: str, path: str):
        self.address, self.files, self.bucket = address, files, bucket
        self.root = f"{bucket}/{path}"

    def require_bucket(self) -> None:
        with self._explained("looked at"):
            (found,) = self.files.get_file_info([self.bucket])
            missing = found.type.name == "NotFound"
        if missing:
            raise StoreError(f"{self.address}: there is no bucket {self.bucket}; create it, or correct the name")

    def put(self, name: str, data: bytes) -> None:
        with self._explained(f"written ({name})"), self.files.open_output_stream(f"{self.root}/{name}") as stream:
            stream.write(data)

    def get(self, name: str) -> bytes:
        with self._explained(f"read ({name})"):
            try:
                with self.files.open_input_stream(f"{self.root}/{name}") as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                raise ObjectMissing(f"{self.address}: the object {name} does not exist") from None

    def list(self, folder: str) -> dict[str, int]:
        from pyarrow.fs import FileSelector

        with self._explained(f"listed ({folder})"):
            selector = FileSelector(f"{self.root}/{folder}", allow_not_found=True, recursive=True)
            found = [each for each in self.files.get_file_info(selector) if each.is_file]
            return {each.path[len(self.root) + 1 :]: each.size for each in found}

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with self._explained(f"deleted ({name})"):
                try:
                    self.files.delete_file(f"{self.root}/{name}")
                except FileNotFoundError:
                    continue

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except (OSError, ValueError) as problem:  # what pyarrow raises
            raise StoreError(f"{self.address} could not be {doing}: {_reason(problem)}") from None


def _reason(problem: Exception) -> str:
    """What went wrong, and what to do."""
    text = str(problem)
    marks = text.upper()
    if "NO_SUCH_BUCKET" in marks:
        return "there is no such bucket; create it, or correct the name"
    if "NETWORK_CONNECTION" in marks or "TIMEOUT" in marks or "CURLCODE" in marks:
        return f"no server answers there ({text.rpartition('; Details: ')[2][:120]}); check the address and the network"
    if any(mark in marks for mark in ("ACCESS_DENIED", "INVALID_ACCESS_KEY", "SIGNATURE", "CREDENTIAL", "403")):
        return (
            "access is denied; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or GOOGLE_APPLICATION_CREDENTIALS), "
            "and what they permit"
        )
    return _first_line(problem)


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:300]
