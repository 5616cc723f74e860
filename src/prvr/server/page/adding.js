// Choosing a folder under the allowed roots, and adding it with live progress.
import { byId, call, clock, make } from "./api.js";

let here = null, changed = () => {};

export function setUpAdding(whenChanged) {
  changed = whenChanged;
  byId("open-add").addEventListener("click", async () => { byId("add").showModal(); await browse(null); });
  byId("add-close").addEventListener("click", () => byId("add").close());
  byId("add-here").addEventListener("click", addHere);
}

async function browse(place) {
  here = place;
  let found;
  try {
    found = (await call("GET", place ? `/v1/folders?${new URLSearchParams(place)}` : "/v1/folders")).folders;
  } catch (problem) { return tell(problem); }
  const inner = place ? found.slice(1) : found;
  byId("add-help").textContent = !place && !found.length
    ? "This server does not allow adding videos. Start it with --allow-root FOLDER, or run: prvr library add FOLDER"
    : "Videos stay where they are; the library stores only what it needs to search them.";
  byId("crumbs").replaceChildren(...(place ? [make("button", { type: "button", class: "plain", onclick: () => browse(up(place)) }, "← Back"), ` ${place.root}${place.path ? " / " + place.path : ""}`] : []));
  byId("folders").replaceChildren(...inner.map((folder) => make("li", {}, make("button", {
    type: "button", class: "plain", onclick: () => browse({ root: folder.root, path: folder.path }),
  }, make("span", {}, place ? folder.path.split("/").pop() : folder.root), make("span", { class: "quiet" }, `${folder.videos} video${folder.videos === 1 ? "" : "s"}`)))));
  byId("add-here").hidden = !place;
  (byId("folders").querySelector("button") || (place ? byId("add-here") : byId("add-close"))).focus(); // what had it is gone
  if (place) byId("add-here").textContent = `Add “${place.path.split("/").pop() || place.root}”`;
}

const up = (place) => (place.path ? { root: place.root, path: place.path.split("/").slice(0, -1).join("/") } : null);

async function addHere() {
  byId("add-here").disabled = true;
  try { follow(await call("POST", "/v1/videos", { root: here.root, path: here.path, retry: true })); } catch (problem) { tell(problem); }
  byId("add-here").disabled = false;
}

function tell(problem) {
  byId("jobs").prepend(make("p", { class: "notice bad", role: "alert" }, `${problem.message} ${problem.remedy || ""}`));
}

function follow(job) {
  const words = make("div"), bar = make("progress", { max: 1, "aria-label": `Adding ${job.what}` });
  const stop = make("button", { type: "button", class: "plain", onclick: () => call("POST", `/v1/jobs/${job.id}/cancel`).catch(tell) }, "Stop");
  const box = make("div", { class: "job", "data-job": job.id }, make("strong", {}, job.what), words, bar, stop);
  byId("jobs").prepend(box);
  const source = new EventSource(job.events_url);
  const say = (text) => { if (byId("add-told").textContent !== text) byId("add-told").textContent = text; }; // heard, not seen: one sentence a file
  let done = 0;
  source.addEventListener("job", (event) => {
    const now = JSON.parse(event.data), at = now.progress;
    box.dataset.state = now.state;
    if (now.state === "queued") words.textContent = "Waiting for its turn.";
    if (now.state === "running") {
      if (at.bytes) bar.value = at.bytes_done / at.bytes;
      words.textContent = at.path ? `${at.files_done + 1} of ${at.files}: ${at.path}, ${Math.round(at.speed)} × real time${at.left ? ", " + clock(at.left) + " left" : ""}` : "Starting …";
      say(at.path ? `Adding ${at.files_done + 1} of ${at.files}: ${at.path}` : `Adding ${job.what}`);
      if (at.files_done > done) { done = at.files_done; changed(); }
    }
    if (["done", "failed", "cancelled"].includes(now.state)) {
      source.close(); stop.remove(); bar.remove();
      const told = now.report, failed = Object.entries({ ...told.failed, ...told.damaged });
      words.textContent = now.problem || `Done: ${told.added} added, ${told.unchanged} unchanged${told.moved ? `, ${told.moved} moved` : ""}${failed.length ? `, ${failed.length} with problems:` : "."}`;
      say(words.textContent);
      if (failed.length) box.append(make("ul", {}, ...failed.map(([name, why]) => make("li", {}, `${name}: ${why}`))));
      changed();
    }
  });
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) words.textContent = "The connection was lost. The job may still be running."; };
}
