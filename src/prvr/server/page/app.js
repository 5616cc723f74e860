// The page: search, results, paging and the TRACE switch. All data comes from /v1.
import { byId, call, clock, make, Problem } from "./api.js";
import { closePlayer, play, setUpPlayer } from "./player.js";
import { setUpAdding } from "./add.js";

let request = null; // the search whose results are shown
let cursor = null, running = null, shown = new Set();
let ranks = new Map(); // rank of each video in the last results
let earlierRanks = null; // the same before the TRACE switch was used, to show what moved

const value = (id) => byId(id).value;
const number = (id) => (value(id) === "" ? null : Number(value(id)));

function readForm() {
  const filters = { folder: value("folder") || null, tags: value("tag") ? [value("tag")] : [], min_duration: number("longer"), max_duration: number("shorter"), after: value("after") || null, before: value("before") || null };
  return { query: value("query").trim(), group_by: value("group"), limit: 12, min_confidence: Number(value("sure")), trace: byId("trace").checked, filters };
}

function setStatus(...nodes) { byId("status").replaceChildren(...nodes); }
function notice(text, bad) { return make("p", { class: bad ? "notice bad" : "notice", role: bad ? "alert" : null }, text); }

async function search(more) {
  if (!more) {
    request = readForm(); cursor = null; shown = new Set();
    document.title = request.query ? `${request.query} – prvr` : "prvr: find the moment";
    if (!request.query) { byId("results").replaceChildren(); byId("more").hidden = true; closePlayer(); history.replaceState(null, "", "/"); return welcome(); }
    history.replaceState(null, "", `/?${new URLSearchParams({ q: request.query })}`);
    setStatus("Searching …");
  }
  running?.abort();
  const own = (running = new AbortController());
  document.body.classList.add("loading");
  byId("more").disabled = true;
  try {
    const response = await call("POST", "/v1/search", { ...request, cursor: more ? cursor : null }, own.signal);
    const arrived = performance.now();
    paint(response, more);
    requestAnimationFrame(() => setTimeout(() => performance.measure("paint", { start: arrived }))); // once the frame is drawn
  } catch (problem) {
    if (problem.name === "AbortError") return;
    if (problem.status === 401) return askToken();
    if (!more) byId("results").replaceChildren();
    byId("more").hidden = true;
    setStatus(notice(`${problem.message} ${problem.remedy || ""}`, true));
  } finally {
    if (own === running) { document.body.classList.remove("loading"); byId("more").disabled = false; }
  }
}

function paint(response, more) {
  const moment = (hit) => `${hit.video.id} ${hit.start}`; // videos may be added between two pages, but no moment is shown twice
  const hits = response.hits.filter((hit) => !shown.has(moment(hit)));
  for (const hit of hits) shown.add(moment(hit));
  const cards = hits.map(card);
  if (more) byId("results").append(...cards); else byId("results").replaceChildren(...cards);
  cursor = response.next_cursor;
  byId("more").hidden = cursor === null;
  if (more) { cards[0]?.querySelector("button").focus(); return; }
  const summary = make("span", {}, `${response.videos_searched} video${response.videos_searched === 1 ? "" : "s"} searched in ${Math.max(1, Math.round(1000 * response.seconds))} ms${request.trace ? "" : ", single matches only"}.`);
  byId("sure-label").hidden = response.presence.probability === null;
  setStatus(...about(response).map((text) => notice(text)), ...(response.message ? [notice(sentence(response.message))] : []), ...(response.videos_searched || !response.message ? [summary] : []));
  ranks = new Map(response.hits.map((hit) => [hit.video.id, hit.rank]));
}

// The words that an encoder with a limited vocabulary used and ignored.
function about(response) {
  const lines = [], { understood } = response;
  if (understood?.ignored.length) lines.push(`Understood: ${understood.used.join(", ") || "nothing"} · ignored: ${understood.ignored.join(", ")}`);
  return lines;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

function note(hit) { // where the words of the query were found, or what is said at the moment
  if (!hit.matched) return hit.line ? `“${hit.line}”` : null;
  const { where, text } = hit.matched;
  return where === "subtitles" || where === "tags" ? `in the ${where}: “${text}”` : `in the ${where}`;
}

function card(hit) {
  const when = `${clock(hit.start)} – ${clock(hit.end)}`;
  const confidence = hit.confidence === null ? null : `${Math.round(100 * hit.confidence)} % right`;
  const open = (start) => {
    const last = document.querySelector(".hit.playing");
    last?.classList.remove("playing"); last?.removeAttribute("aria-current");
    item.classList.add("playing"); item.setAttribute("aria-current", "true");
    play(hit, start, request.trace);
  };
  const strip = make("span", { class: "strip" }, ...hit.thumbnail_urls.map((url) => make("img", { src: url, alt: "", loading: "lazy", width: 160, height: 120, decoding: "async" })));
  const earlier = earlierRanks && earlierRanks.get(hit.video.id);
  const moved = earlier && earlier !== hit.rank ? `rank ${earlier} ${request.trace ? "by single matches" : "with TRACE"}` : null;
  const facts = make("span", { class: "facts" }, make("span", { class: "when" }, when), confidence ? make("span", { class: hit.confidence >= 0.9 ? "yes" : "", title: "how probable it is that this is the moment you mean" }, confidence) : null,
    hit.verdict ? make("span", {}, hit.verdict) : null,
    moved ? make("span", {}, moved) : null);
  const title = make("span", { class: "title" }, make("span", {}, `${hit.rank}`), hit.video.name);
  const also = hit.also_at.length ? `also at ${hit.also_at.join(", ")}` : null;
  const text = make("div", { class: "text" }, make("div", {}, title), facts, note(hit) ? make("p", { class: "subtitle" }, note(hit)) : null, also ? make("p", { class: "also" }, also) : null);
  const button = make("button", { type: "button", "aria-label": `${hit.rank}. ${[hit.video.name, when, confidence, moved, note(hit), also].filter(Boolean).join(", ")}. Play`, onclick: () => open(hit.start) }, strip, text);
  const others = hit.moments.slice(1);
  const chips = others.length ? make("div", { class: "chips", role: "group", "aria-label": "Other moments of this video" },
    ...others.map((m) => make("button", { type: "button", class: "chip", onclick: () => open(m.start), "aria-label": `Play ${hit.video.name} at ${clock(m.start)}` }, `also ${clock(m.start)}`))) : make("div", { class: "chips" });
  const item = make("li", { class: "hit", "data-video": hit.video.id }, button, chips);
  return item;
}

async function describe() {
  try {
    const library = await call("GET", "/v1/library");
    byId("holds").textContent = `${library.videos} video${library.videos === 1 ? "" : "s"}, ${hours(library.seconds)}${library.failed ? `, ${library.failed} unreadable` : ""}`;
    fill("folder", library.folders.filter(Boolean)); fill("tag", library.tags);
    byId("holds").dataset.videos = library.videos;
    byId("limits").textContent = library.limits || ""; byId("limits").hidden = !library.limits;
    if (!request?.query) welcome();
  } catch (problem) {
    if (problem.status === 401) return askToken();
    if (problem instanceof Problem) setStatus(notice(`${problem.message} ${problem.remedy}`, true)); else throw problem;
  }
}

const hours = (s) => (s >= 5400 ? `${(s / 3600).toFixed(1)} hours` : s >= 90 ? `${Math.round(s / 60)} minutes` : `${Math.round(s)} seconds`);

function fill(id, names) {
  const selected = value(id);
  byId(id).replaceChildren(make("option", { value: "" }, "all"), ...names.map((name) => make("option", { value: name }, name)));
  if (names.includes(selected)) byId(id).value = selected;
}

function welcome() {
  const empty = byId("holds").dataset.videos === "0";
  setStatus(empty ? notice("This library is empty. Add videos, then search them here.") : "Describe what happens in the moment you are looking for. Enter searches, Escape closes the player.");
}

async function askToken(problem) {
  byId("ask-problem").textContent = problem || "";
  if (!byId("ask").open) byId("ask").showModal();
}

async function enter(token) {
  try { await call("POST", "/v1/session", { token }); } catch (problem) { return askToken(problem.message); }
  byId("ask").close();
  await begin();
}

async function begin() {
  await describe();
  const query = new URLSearchParams(location.search).get("q");
  if (query) { byId("query").value = query; await search(false); }
}

byId("search").addEventListener("submit", (event) => { event.preventDefault(); earlierRanks = null; search(false); });
byId("trace").addEventListener("change", async () => {
  if (!request?.query) return;
  earlierRanks = request.query === value("query").trim() ? ranks : null;
  const playing = document.querySelector(".hit.playing")?.dataset.video;
  await search(false);
  document.querySelector(`.hit[data-video="${playing}"] > button`)?.click();
  byId("trace").focus();
});
for (const id of ["group", "folder", "tag", "sure", "longer", "shorter", "after", "before"]) byId(id).addEventListener("change", () => { earlierRanks = null; if (value("query").trim()) search(false); });
byId("more").addEventListener("click", () => search(true));
byId("ask-form").addEventListener("submit", (event) => { event.preventDefault(); enter(value("token")); });
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing && !document.querySelector("dialog[open]")) { event.preventDefault(); byId("query").select(); }
  if (event.key === "Escape" && !document.querySelector("dialog[open]") && !byId("stage").hidden) closePlayer();
});
addEventListener("error", (event) => { if (event.target?.tagName === "IMG") event.target.classList.add("missing"); }, true);
setUpPlayer();
setUpAdding(describe);
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) { history.replaceState(null, "", location.pathname + location.search); enter(token); } else begin();
