// The page: what its address says is shown, and what somebody does changes the address. All data comes from /v1.
import { setUpAdding } from "./add.js";
import { byId, call, clock, count, make, Problem, sayProblem } from "./api.js";
import { go, isSearch, listOf, onAddress, openFilters, state } from "./address.js";
import { look, setUpActivity } from "./activity.js";
import { describeLibrary, hideLibrary, libraryChanged, setUpBrowsing, showLibrary } from "./browse.js";
import { allowEditing, setUpEditing } from "./edit.js";
import { closePlayer, openPlayer, setUpPlayer } from "./player.js";
import { drawPicture, setUpPictures } from "./picture.js";
import { dropHits, forgetHits, hasHits, hideHits, hitOf, notice, rememberRanks, setStatus, setUpSearch, showHits, updateHits } from "./search.js";
import { dropPicks, setUpSelection } from "./selection.js";

const FIELDS = ["group", "folder", "tag", "sure", "longer", "shorter", "after", "before"];
let shows = 0; // number of the last call of show; earlier ones that still wait for the server give up

async function show(before, fromHistory) {
  const number = ++shows;
  if (before && before.q !== state.q) byId("query").value = state.q; // otherwise what was typed and not yet sent stays
  fillForm();
  if (!before || listOf(before) !== listOf(state) || (isSearch() && !hasHits())) {
    document.title = state.q ? `${state.q} – prvr` : state.like || state.picture ? "Search by picture – prvr" : state.folder ? `${state.folder} – prvr` : "prvr: find the moment";
    if (!state.video) closePlayer({ back: false });
    if (isSearch()) { hideLibrary(); await showHits(); } else { hideHits(); await showLibrary(); }
    if (number !== shows) return;
  } else if (before.video === state.video && before.t === state.t && !fromHistory) return;
  if (state.video) await showVideo(number, !before || before.video !== state.video); else closePlayer();
}

async function showVideo(number, isNew) {
  const time = Number(state.t) || 0, hit = isSearch() ? hitOf(state.video, time) : null;
  let video = hit?.video;
  try {
    if (!/^[1-9]\d{0,14}$/.test(state.video)) throw new Problem(0, `The address names no video: “${state.video}”.`, "Choose one from the list.");
    video ??= await call("GET", `/v1/videos/${state.video}`);
  } catch (problem) {
    if (number === shows && problem.status !== 401) { closePlayer(); setStatus(notice(sayProblem(problem), true)); }
    return;
  }
  if (number !== shows) return;
  const traced = state.trace !== "0", asked = new URLSearchParams({ ...(state.q ? { query: state.q } : { like: state.like }), trace: traced });
  const evidenceUrl = hit ? hit.evidence_url : state.q || state.like ? `/v1/videos/${video.id}/evidence?${asked}` : null;
  const noEvidence = hit && !evidenceUrl ? "The words of the query were found here. The encoder understands none of them, so there is no evidence in the pictures." : null;
  await openPlayer({ video, start: time, found: hit?.start, moments: hit?.moments ?? [], evidenceUrl, noEvidence }, { trace: traced, focus: isNew });
}

function fillForm() {
  byId("trace").checked = state.trace !== "0";
  for (const name of FIELDS) {
    const field = byId(name);
    if (field.tagName === "SELECT" && state[name] && ![...field.options].some((option) => option.value === state[name])) field.append(make("option", { value: state[name] }, state[name]));
    field.value = state[name];
  }
  if (openFilters()) byId("filters").open = true;
  byId("asked").hidden = !state.like && !state.picture;
  byId("asked-picture").hidden = !state.picture; byId("asked-moment").hidden = !state.like;
  if (state.picture) { drawPicture(byId("asked-picture"), state.picture); byId("asked-text").textContent = "Moments that look like this picture"; }
  else if (state.like) showAskedMoment();
}

function showAskedMoment() {
  const [id, span = ""] = state.like.split("@"), [start, end] = span.split("-").map(Number);
  const address = `/v1/videos/${Number(id)}/thumbnail?time=${((start + end) / 2).toFixed(2)}&width=160`;
  if (byId("asked-moment").getAttribute("src") === address) return;
  byId("asked-moment").src = address;
  byId("asked-text").textContent = `Moments like ${clock(start)} – ${clock(end)}`;
  call("GET", `/v1/videos/${Number(id)}`).then((video) => { if (byId("asked-moment").getAttribute("src") === address) byId("asked-text").textContent = `Moments like ${video.name}, ${clock(start)} – ${clock(end)}`; }, () => {});
}

async function describe() {
  try {
    const library = await call("GET", "/v1/library");
    byId("holds").textContent = `${count(library.videos, "video")}, ${hours(library.seconds)}${library.failed ? `, ${library.failed} could not be read` : ""}`;
    fill("folder", library.folders.filter(Boolean)); fill("tag", library.tags);
    byId("holds").dataset.videos = library.videos;
    byId("limits").textContent = library.limits || ""; byId("limits").hidden = !library.limits;
    allowEditing(library.writable, library.tags); byId("open-add").hidden = !library.writable;
    describeLibrary(library);
    return true;
  } catch (problem) {
    if (problem.status === 401) askToken();
    else if (problem instanceof Problem) setStatus(notice(sayProblem(problem), true)); else throw problem;
    return false;
  }
}

const hours = (s) => (s >= 5400 ? `${(s / 3600).toFixed(1)} hours` : s >= 90 ? `${Math.round(s / 60)} minutes` : `${Math.round(s)} seconds`);

function fill(id, names) {
  byId(id).replaceChildren(make("option", { value: "" }, "all"), ...names.map((name) => make("option", { value: name }, name)));
  if (state[id] && !names.includes(state[id])) byId(id).append(make("option", { value: state[id] }, state[id]));
  byId(id).value = state[id];
}

let refreshing = null;
function refresh() { // at most once in two seconds, however many files are added; counting a large library takes longer
  const videos = Number(byId("holds").dataset.videos);
  refreshing ??= setTimeout(async () => { refreshing = null; await describe(); if (byId("found").hidden) forgetHits(); libraryChanged(); }, videos === 0 ? 100 : videos < 20_000 ? 2000 : 15_000);
}

function askToken(problem) {
  byId("ask-problem").textContent = problem || "";
  if (!byId("ask").open) byId("ask").showModal();
}

async function enter(token) {
  try { await call("POST", "/v1/session", { token }); } catch (problem) { return askToken(problem.message); }
  byId("ask").close();
  await begin();
}

async function begin() {
  if (!(await describe())) return;
  look();
  await show(null, false);
}

const closed = { video: "", t: "" };
byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const q = byId("query").value.trim();
  forgetHits();
  go({ q, ...(q ? { like: "", picture: "" } : {}), failed: "", ...closed });
});
byId("query").addEventListener("search", () => { if (!byId("query").value && state.q) go({ q: "", ...closed }); }); // the ✕ of the field
byId("asked-close").addEventListener("click", () => { go({ like: "", picture: "", ...closed }); byId("query").focus(); });
byId("home").addEventListener("click", (event) => { event.preventDefault(); byId("query").value = ""; go({ q: "", like: "", picture: "", folder: "", tag: "", failed: "", ...closed }); });
// The browser would write #list into the address, where the picture of a search stands.
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("list").focus(); });
byId("trace").addEventListener("change", () => { rememberRanks(); go({ trace: byId("trace").checked ? "1" : "0" }); });
// While a year is typed, the field holds the years 2, 20 and 202: too early for what it allows.
for (const id of FIELDS) byId(id).addEventListener("change", () => { if (byId(id).type !== "date" || !byId(id).validity.rangeUnderflow) go({ [id]: byId(id).value, ...closed }); });
byId("ask-form").addEventListener("submit", (event) => { event.preventDefault(); enter(byId("token").value); });
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "/" && !typing) { event.preventDefault(); byId("query").select(); }
  if (event.key === "Escape" && state.video) go(closed);
});
if (!byId("query").value) byId("query").value = state.q; // somebody may type before the library was described
setUpSearch(askToken);
setUpBrowsing(askToken);
setUpPlayer();
setUpSelection();
setUpEditing((video) => { updateHits(video); refresh(); }, (video) => {
  if (state.video === String(video.id)) go(closed);
  for (const card of document.querySelectorAll(`.card[data-video="${video.id}"]`)) card.remove(); // of both lists, and of each moment
  dropHits(video); dropPicks(video);
  refresh();
});
setUpPictures((picture) => { scrollTo({ top: 0 }); go({ q: "", like: "", picture, ...closed }); }, (text) => setStatus(notice(text, true)));
setUpActivity(refresh);
setUpAdding(() => { refresh(); look(); });
onAddress(show);
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) { history.replaceState(null, "", location.pathname + location.search); enter(token); } else begin();
