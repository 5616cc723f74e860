// The dialog that adds videos: choose a folder inside an allowed root, then follow the job that adds it.
import { byId, call, clock, make } from "./api.js";

let current = null; // the folder that is shown, as { root, path }; null: the list of roots
let looks = 0; // number of the last call of browse; earlier ones that still wait for the server give up
let onChange = () => {};

export function setUpAdding(whenLibraryChanged) {
  onChange = whenLibraryChanged;
  byId("open-add").addEventListener("click", async () => { byId("add").showModal(); await browse(null); });
  byId("add-close").addEventListener("click", () => byId("add").close());
  byId("add-here").addEventListener("click", addHere);
  byId("activity").addEventListener("click", async () => { byId("add").showModal(); await browse(null); });
}

async function browse(folder) {
  const number = ++looks;
  followOthers();
  let folders;
  try {
    folders = (await call("GET", folder ? `/v1/folders?${new URLSearchParams(folder)}` : "/v1/folders")).folders;
  } catch (problem) { return showProblem(problem); } // the folder before is still shown
  if (number !== looks) return;
  current = folder;
  const inner = folder ? folders.slice(1) : folders;
  byId("add-help").textContent = !folder && !folders.length
    ? "This server does not allow adding videos. Start it with --allow-root FOLDER, or run: prvr library add FOLDER"
    : "Your files stay where they are. The library stores only what it needs for searching.";
  byId("crumbs").replaceChildren(...(folder ? [make("button", { type: "button", class: "plain", onclick: () => browse(parent(folder)) }, "← Back"), ` ${folder.root}${folder.path ? " / " + folder.path : ""}`] : []));
  byId("folders").replaceChildren(...inner.map((child) => make("li", {}, make("button", {
    type: "button", class: "plain", onclick: () => browse({ root: child.root, path: child.path }),
  }, make("span", {}, folder ? child.path.split("/").pop() : child.root), make("span", { class: "quiet" }, `${child.videos} video${child.videos === 1 ? "" : "s"}`)))));
  byId("add-here").hidden = !folder;
  (byId("folders").querySelector("button") || (folder ? byId("add-here") : byId("add-close"))).focus(); // the button that had the focus is gone
  if (folder) byId("add-here").textContent = `Add “${folder.path.split("/").pop() || folder.root}”`;
}

const parent = (folder) => (folder.path ? { root: folder.root, path: folder.path.split("/").slice(0, -1).join("/") } : null);

async function addHere() {
  byId("add-here").disabled = true;
  try { follow(await call("POST", "/v1/videos", { root: current.root, path: current.path, retry: true })); } catch (problem) { showProblem(problem); }
  byId("add-here").disabled = false;
}

// Jobs that were started elsewhere, or before the page was loaded again.
async function followOthers() {
  let jobs = [];
  try { jobs = (await call("GET", "/v1/jobs")).jobs; } catch { return; }
  for (const job of jobs.reverse()) if (["queued", "running"].includes(job.state) && !document.querySelector(`[data-job="${job.id}"]`)) follow(job);
}

function showProblem(problem) {
  byId("jobs").prepend(make("p", { class: "notice bad", role: "alert" }, `${problem.message} ${problem.remedy || ""}`));
}

function follow(job) {
  const text = make("div"), bar = make("progress", { max: 1, "aria-label": `Adding ${job.what}` });
  const stop = make("button", { type: "button", class: "plain", onclick: () => call("POST", `/v1/jobs/${job.id}/cancel`).catch(showProblem) }, "Stop");
  const box = make("div", { class: "job", "data-job": job.id }, make("strong", {}, job.what), text, bar, stop);
  byId("jobs").prepend(box);
  const source = new EventSource(job.events_url);
  const announce = (sentence) => { if (byId("add-status").textContent !== sentence) byId("add-status").textContent = sentence; }; // for screen readers: once per file
  let done = 0;
  source.addEventListener("job", (event) => {
    const state = JSON.parse(event.data), progress = state.progress;
    box.dataset.state = state.state;
    if (state.state === "queued") text.textContent = "Waiting for other jobs.";
    if (state.state === "running") {
      if (progress.bytes) bar.value = progress.bytes_done / progress.bytes;
      text.textContent = progress.path ? `${progress.files_done + 1} of ${progress.files}: ${progress.path}, ${Math.round(progress.speed)} × real time${progress.left ? ", " + clock(progress.left) + " left" : ""}` : "Starting …";
      announce(progress.path ? `Adding ${progress.files_done + 1} of ${progress.files}: ${progress.path}` : `Adding ${job.what}`);
      if (progress.files_done > done) { done = progress.files_done; onChange(); }
    }
    if (["done", "failed", "cancelled"].includes(state.state)) {
      source.close(); stop.remove(); bar.remove();
      const report = state.report, failed = Object.entries({ ...report.failed, ...report.damaged });
      text.textContent = state.problem || `Done: ${report.added} added, ${report.unchanged} unchanged${report.moved ? `, ${report.moved} moved` : ""}${failed.length ? `, ${failed.length} with problems:` : "."}`;
      announce(text.textContent);
      if (failed.length) box.append(make("ul", {}, ...failed.map(([name, reason]) => make("li", {}, `${name}: ${reason}`))));
      onChange();
    }
  });
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) text.textContent = "The connection to the server was lost. The job may still be running."; };
}
