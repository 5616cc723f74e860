"""``prvr serve --cluster``: the server's app under Ray Serve, with replicas that open the lake themselves.

A replica keeps nothing but a cache. Ray replaces one that dies; requests that it was answering fail, and the same
requests sent again reach another replica.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from typing import Any

from prvr import __version__
from prvr.lake import ClusterError, address_for_nodes, connected, is_lake, open_library, require_same_version
from prvr.library import Library
from prvr.server.app import create_app
from prvr.server.http_server import listen
from prvr.server.options import ServerError, ServerOptions, is_loopback

_CHECKS = {"health_check_period_s": 2.0, "health_check_timeout_s": 20.0}
_REQUESTS = 2000  # that a replica may have at a time; the app itself refuses searches before that


class Replica:
    """One server of the library."""

    def __init__(self, address: str, version: str, options: ServerOptions, threads: int):
        import torch

        require_same_version(version)
        torch.set_num_threads(threads)
        self.library, self.options = open_library(address), options
        self.library.prepare()

    def __serve_build_asgi_app__(self) -> Any:
        return create_app(self.library, self.options)


def serve_on_cluster(
    library: Library, options: ServerOptions, address: str, replicas: int, ready: Callable[[str], None]
) -> None:
    """Serve a lake from a Ray cluster until Ctrl-C or SIGTERM. ``ready`` is called with the address of the page."""
    if not is_lake(library.address):
        raise ServerError(
            f"{library.address} is a library for one machine, and a cluster needs a lake: `prvr library copy "
            f"{library.address} NAME.lance` makes one, on a disk that all nodes share or in a bucket"
        )
    if replicas < 1:
        raise ServerError(f"at least one replica must answer, not {replicas}")
    if options.certfile is not None:
        raise ServerError("Ray Serve has no HTTPS: leave --certfile and --keyfile out, and put a proxy in front")
    if options.proxies:
        raise ServerError("Ray Serve decides itself which proxies it believes: leave --trusted-proxy out")
    if options.roots and replicas > 1:
        raise ServerError("only one replica can add videos: leave --allow-root out, and use `prvr library add`")
    with listen(options) as listening:
        port = listening.getsockname()[1]  # Ray Serve opens it again itself; this shows that it is free
    stopped = threading.Event()
    with connected(address) as ray:
        stop = _start(ray, address_for_nodes(library.address), options, replicas, port)
        before = {each: signal.signal(each, lambda *_: stopped.set()) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            ready(f"http://{options.shown_host}:{port}/")
            stopped.wait()
        finally:
            stop()
            for each, handler in before.items():
                signal.signal(each, handler)


def _start(ray: Any, library: str, options: ServerOptions, replicas: int, port: int) -> Callable[[], None]:
    """Start the replicas. Returns what stops them; they run on if this process is killed."""
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    name = f"prvr {library}".replace("/", "|")
    if {*serve.status().applications} - {name}:
        raise ClusterError("this cluster already serves something else: stop it with `serve shutdown` first")
    serve.shutdown()  # what a killed command has left
    where = "HeadOnly" if is_loopback(options.host) else "EveryNode"
    serve.start(proxy_location=where, http_options={"host": options.host.strip("[]"), "port": port})
    own = {"num_replicas": replicas, "max_ongoing_requests": _REQUESTS, **_CHECKS}
    deployment = serve.deployment(serve.ingress()(Replica)).options(**own, ray_actor_options={"num_cpus": 0})
    threads = max(1, int(ray.cluster_resources().get("CPU", 1)) // replicas)
    try:
        serve.run(deployment.bind(library, __version__, options, threads), name=name, route_prefix="/")
    except BaseException as problem:
        serve.shutdown()
        if not isinstance(problem, RuntimeError):
            raise
        raise ClusterError(f"the replicas could not be started: {str(problem).strip().splitlines()[-1]}") from problem
    return serve.shutdown
