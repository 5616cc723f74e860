"""``prvr serve --cluster``: the server's app as a Ray Serve deployment, with searches that ask the shards.

Ray restarts the app if it is killed. It finds its shards by name.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prvr import __version__
from prvr.cluster.connection import ClusterError, connected, require_ray
from prvr.cluster.encode import open_library
from prvr.cluster.replicas import Shards
from prvr.cluster.search import ClusterSearcher
from prvr.cluster.shard_actor import find_shards, service_name, start_shards, stop_shards
from prvr.library import Library, absolute_path

if TYPE_CHECKING:
    from prvr.server import ServerOptions  # FastAPI is an extra, which adding does not need


@dataclass(frozen=True)
class ClusterOptions:
    """The cluster, and how the library is divided on it."""

    address: str = "auto"  # auto, host:port or local
    shards: int = 1
    replicas: int = 1
    patience: float = 10.0  # seconds after which a replica of a shard counts as silent

    def __post_init__(self) -> None:
        if self.shards < 1 or self.replicas < 1:
            raise ClusterError(f"shards and replicas must be at least 1, not {self.shards} and {self.replicas}")


class ServerDeployment:
    """The deployment: the server's app with a searcher that asks the shards."""

    def __init__(self, folder: str, version: str, options: ServerOptions, cluster: ClusterOptions):
        self.library = open_library(folder, version)
        self.options, self.cluster = options, cluster

    def __serve_build_asgi_app__(self) -> Any:
        from prvr.server import create_app

        ray = require_ray()
        actors = find_shards(ray, self.library.folder, self.cluster.shards, self.cluster.replicas)
        searcher = ClusterSearcher(self.library, Shards(ray, actors, self.cluster.patience))
        return create_app(self.library, self.options, searcher)


def serve_on_cluster(
    library: Library, options: ServerOptions, cluster: ClusterOptions, ready: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C or SIGTERM. ``ready`` is called with the address. Port 0 takes any free port."""
    from prvr.server import listen

    with listen(options) as listening:
        port = listening.getsockname()[1]  # Ray Serve opens it again itself; this shows that it is free
    library.tracks  # noqa: B018 (problems with the encoder show before anybody searches)
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
    """Start shards, then the app. Both run until ``stop_service``, also after this process ends."""
    from ray import serve

    from prvr.server import is_loopback

    start_shards(ray, folder, cluster.shards, cluster.replicas)
    quiet = logging.getLogger("ray.serve")
    quiet.setLevel(logging.ERROR)
    where = "HeadOnly" if is_loopback(options.host) else "EveryNode"
    serve.start(proxy_location=where, http_options={"host": options.host.strip("[]"), "port": port})
    head = serve.deployment(serve.ingress()(ServerDeployment)).options(
        name="head", num_replicas=1, max_ongoing_requests=2000, ray_actor_options={"num_cpus": 0}
    )
    serve.run(
        head.bind(str(absolute_path(folder)), __version__, options, cluster),
        name=service_name(folder),
        route_prefix="/",
    )


def stop_service(ray: Any, folder: Path) -> None:
    """Stop the app and its shards, and Ray Serve if nothing else runs on it."""
    from ray import serve

    serve.delete(service_name(folder))
    stop_shards(ray, folder)
    if not serve.status().applications:
        serve.shutdown()
