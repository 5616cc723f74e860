// What the server and watchers are doing, in the header: GET /v1/activity, and the jobs that add videos.
import { byId, call, count } from "./api.js";

const OFTEN = 2000, SELDOM = 15000; // milliseconds between two looks, while something goes on and otherwise
let timer = null, last = "", finished = () => {}, known = true;

export function setUpActivity(whenLibraryChanged) {
  finished = whenLibraryChanged;
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
}

// Look now, and then again and again.
export async function look() {
  clearTimeout(timer);
  if (document.hidden || !known) return; // nobody sees it, or the server is an older one
  let running = [];
  try { running = (await call("GET", "/v1/activity")).running; } catch (problem) { if (problem.status === 404) known = false; }
  show(running);
  timer = setTimeout(look, running.some((each) => each.state !== "waiting") ? OFTEN : SELDOM);
}

function show(running) {
  const busy = running.filter((each) => each.state !== "waiting"), text = busy.length ? busy.map(describe).join(" · ") : running.map(describe)[0] ?? "";
  byId("activity").hidden = !text;
  byId("activity").classList.toggle("busy", busy.length > 0);
  if (byId("activity-text").textContent !== text) byId("activity-text").textContent = text;
  const state = JSON.stringify(busy.map(({ what, folder, done }) => [what, folder, done]));
  if (state !== last && last !== "") finished(); // a file is done, or all of them
  last = state;
}

function describe({ what, folder, state, done, total, file, message }) {
  const place = folder || "the library";
  if (state === "waiting") return (what === "watch" ? `Watching ${place}` : `Waiting to add ${place}`) + (message ? `: ${message}` : "");
  const numbers = total ? ` ${Math.min(done + 1, total).toLocaleString("en")} of ${count(total, "video")}` : "";
  return `${what === "reindex" ? "Reindexing" : "Indexing"}${numbers} in ${place}${file ? `: ${file.split("/").pop()}` : ""}`;
}
