"""``prvr serve --cluster``: Ray Serve in front, shards behind it.

The same app as on one machine runs as a Serve deployment; only its searches go to the shards. It is started again if it
is killed, finds its shards by name, and they map the library from the storage that all nodes see.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prvr import __version__
from prvr.cluster.connecting import ClusterError, connected, require_ray
from prvr.cluster.encoding import opened_library
from prvr.cluster.hedging import Shards
from prvr.cluster.searching import ClusterSearcher
from prvr.cluster.shards import find_shards, service_name, start_shards, stop_shards
from prvr.library import Library
from prvr.library.ingest.files import absolute
from prvr.server import ServerOptions, create_app, is_loopback, listen


@dataclass(frozen=True)
class ClusterOptions:
    """Where to serve from."""

    address: str = "auto"  # auto, host:port or local
    shards: int = 1
    replicas: int = 1
    patience: float = 10.0  # seconds after which a replica of a shard counts as silent

    def __post_init__(self) -> None:
        if self.shards < 1 or self.replicas < 1:
            raise ClusterError(
                f"a library has at least one shard and one replica of it, not {self.shards} and {self.replicas}"
            )


class Head:
    """The deployment: the app, with a searcher that asks the shards."""

    def __init__(self, folder: str, version: str, options: ServerOptions, cluster: ClusterOptions):
        self.library = opened_library(folder, version)
        self.options, self.cluster = options, cluster

    def __serve_build_asgi_app__(self) -> Any:
        ray = require_ray()
        actors = find_shards(ray, self.library.folder, self.cluster.shards, self.cluster.replicas)
        searcher = ClusterSearcher(self.library, Shards(ray, actors, self.cluster.patience))
        return create_app(self.library, self.options, searcher)


def serve_on_cluster(
    library: Library, options: ServerOptions, cluster: ClusterOptions, ready: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C or SIGTERM; ``ready`` is told the address. Port 0 takes any free one."""
    with listen(options) as listening:
        port = listening.getsockname()[1]  # Serve opens it itself: that it can be had is known now
    library.tracks  # noqa: B018 (what is wrong with the encoder is said before anybody asks)
    with connected(cluster.address) as ray:
        start_service(ray, library.folder, options, cluster, port)
        stopped = threading.Event()
        before = {each: signal.signal(each, lambda *_: stopped.set()) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            ready(f"http://{options.shown_host}:{port}/")
            stopped.wait()
        finally:
            stop_service(ray, library.folder)
            for each, handler in before.items():
                signal.signal(each, handler)


def start_service(ray: Any, folder: Path, options: ServerOptions, cluster: ClusterOptions, port: int) -> None:
    """Shards, then the app in front of them; both stay when this process ends, until ``stop_service``."""
    from ray import serve

    start_shards(ray, folder, cluster.shards, cluster.replicas)
    quiet = logging.getLogger("ray.serve")
    quiet.setLevel(logging.ERROR)
    where = "HeadOnly" if is_loopback(options.host) else "EveryNode"
    serve.start(proxy_location=where, http_options={"host": options.host.strip("[]"), "port": port})
    head = serve.deployment(serve.ingress()(Head)).options(
        name="head", num_replicas=1, max_ongoing_requests=2000, ray_actor_options={"num_cpus": 0}
    )
    serve.run(
        head.bind(str(absolute(folder)), __version__, options, cluster), name=service_name(folder), route_prefix="/"
    )


def stop_service(ray: Any, folder: Path) -> None:
    from ray import serve

    serve.delete(service_name(folder))
    stop_shards(ray, folder)
    if not serve.status().applications:
        serve.shutdown()
