"""The page's header: what is being done to the library, by this server and by other processes."""

from __future__ import annotations

from tests.server.conftest import Served
from tests.waiting import until


def test_other_processes_and_own_jobs_are_shown_without_paths(served: Served) -> None:
    assert served.client.get("/v1/activity").json() == {"running": []}
    films = served.library.videos()[0].path.parent
    with served.library.announce("watch", [str(films)]) as announcement:
        announcement.update(message=f"{films} is not there")
        until(lambda: served.client.get("/v1/activity").json()["running"][0]["message"])  # within a second
        answer = served.client.get("/v1/activity")
        (running,) = answer.json()["running"]
        assert (running["what"], running["state"], running["file"]) == ("watch", "waiting", None)
        assert running["message"] == f"{films.name} is not there"
        assert running["folder"] in (films.name, "inner")
        assert str(films) not in answer.text
    job = served.client.post("/v1/videos", json={"root": "new"}).json()
    seen = []
    while served.client.get(f"/v1/jobs/{job['id']}").json()["state"] in ("queued", "running"):
        seen += served.client.get("/v1/activity").json()["running"]
    assert {(each["what"], each["folder"], each["total"]) for each in seen} == {("add", "new", 3)}
    assert served.client.get("/v1/activity").json() == {"running": []}
