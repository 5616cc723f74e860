// A search: from the address to cards of hits. All data comes from POST /v1/search.
import { breakable, byId, call, clock, count, make, Problem, sayProblem, sentence } from "./api.js";
import { go, listOf, state } from "./address.js";
import { drawOutline } from "./curves.js";
import { moveBetweenCards, placeholders } from "./cards.js";
import { pick } from "./selection.js";

let shownFor = null; // the state whose hits are shown
let cursor = null, running = null, known = new Map(); // hits by moment
let ranks = new Map(), earlierRanks = null; // rank of each video; the same before the TRACE switch was used
let low = 0, high = 1, best = 1; // of the evidence of all hits, so that the small curves can be compared; and of the first hit
let lastStatus = [];
let askToken = () => {};

export function setUpSearch(whenTokenIsNeeded) {
  askToken = whenTokenIsNeeded;
  byId("more").addEventListener("click", () => load(true));
  byId("weaker").addEventListener("click", () => { unfold(); byId("results").querySelector(".weak button")?.focus(); });
  moveBetweenCards(byId("results"), ".hit > button");
}

export const setStatus = (...nodes) => byId("status").replaceChildren(...nodes);
export const notice = (text, bad) => make("p", { class: bad ? "notice bad" : "notice", role: bad ? "alert" : null }, text);

// What the page asks for, as the body of a request.
function requestOf(shown) {
  const number = (name) => (shown[name] === "" || !Number.isFinite(Number(shown[name])) ? null : Number(shown[name]));
  const filters = { folder: shown.folder || null, tags: shown.tag ? [shown.tag] : [], min_duration: number("longer"), max_duration: number("shorter"), after: shown.after || null, before: shown.before || null };
  const like = /^(\d{1,15})@(\d+\.?\d*)-(\d+\.?\d*)$/.exec(shown.like);
  if (shown.like && !like) throw new Problem(0, `The address names no moment: “${shown.like}”.`, "A moment is written VIDEO@START-END, like 3@12.5-18.");
  const query = shown.picture ? { picture: shown.picture } : like ? { like: { video: Number(like[1]), start: Number(like[2]), end: Number(like[3]) } } : { query: shown.q };
  return { ...query, group_by: shown.group === "moment" ? "moment" : "video", limit: 12, min_confidence: (query.query && number("sure")) || 0, trace: shown.trace !== "0", filters };
}

export function hideHits() { running?.abort(); byId("found").hidden = true; }

// Before a search with the TRACE switch turned: the next cards say what moved.
export function rememberRanks() { earlierRanks = ranks; }

export async function showHits() {
  byId("found").hidden = false;
  if (hasHits()) return setStatus(...lastStatus); // back to what is still here
  if (shownFor?.trace === state.trace) earlierRanks = null;
  shownFor = { ...state };
  await load(false);
}

// The next showHits searches again, even for the same state.
export const forgetHits = () => { shownFor = null; };
export const hasHits = () => shownFor !== null && listOf(shownFor) === listOf(state);

// A video was changed here: its hits show it as it is now.
export function updateHits(video) { for (const hit of known.values()) if (hit.video.id === video.id) hit.video = video; }

// A video was removed here: so are its hits.
export function dropHits(video) { for (const [key, hit] of known) if (hit.video.id === video.id) known.delete(key); }

// The hit of a video that is shown: with the moment that begins at a time, or else one that holds it, or else the first.
export function hitOf(video, time) {
  const hits = [...known.values()].filter((hit) => hit.video.id === Number(video));
  return hits.find((hit) => hit.moments.some((moment) => Math.abs(moment.start - time) < 0.06)) ?? hits.find((hit) => hit.start <= time && time <= hit.end) ?? hits[0];
}

async function load(more) {
  running?.abort();
  const own = (running = new AbortController());
  if (!more) {
    cursor = null; known = new Map(); byId("more").hidden = byId("weaker").hidden = true;
    setStatus("Searching …");
    if (!byId("results").querySelector(".hit")) byId("results").replaceChildren(...placeholders(6));
  }
  document.body.classList.add("loading");
  byId("more").disabled = true;
  try {
    const request = requestOf(shownFor);
    const response = await call("POST", "/v1/search", { ...request, cursor: more ? cursor : null }, own.signal);
    const arrived = performance.now();
    paint(response, more, request);
    requestAnimationFrame(() => setTimeout(() => performance.measure("paint", { start: arrived }))); // once the frame is drawn
  } catch (problem) {
    if (problem.name === "AbortError") { if (own === running) shownFor = null; return; } // left before it was there
    shownFor = null;
    if (problem.status === 401) return askToken();
    if (!more) byId("results").replaceChildren();
    byId("more").hidden = true;
    setStatus(notice(sayProblem(problem), true));
  } finally {
    if (own === running) { document.body.classList.remove("loading"); byId("more").disabled = false; }
  }
}

function paint(response, more, request) {
  const moment = (hit) => `${hit.video.id} ${hit.start}`; // videos may be added between two pages, but no moment is shown twice
  const hits = response.hits.filter((hit) => !known.has(moment(hit)));
  for (const hit of hits) known.set(moment(hit), hit);
  if (!more) measure(response.hits);
  const cards = hits.map((hit) => card(hit, request.trace));
  if (more) byId("results").append(...cards); else byId("results").replaceChildren(...cards);
  cursor = response.next_cursor;
  byId("more").hidden = cursor === null;
  if (more) { cards[0]?.querySelector("button").focus(); return; }
  fold(response);
  const summary = make("span", {}, `${count(response.videos_searched, "video")} searched in ${Math.max(1, Math.round(1000 * response.seconds))} ms${request.trace ? "" : ", single matches only"}.`);
  byId("sure-label").hidden = response.presence.probability === null;
  lastStatus = [...about(response).map((text) => notice(text)), ...(response.message ? [notice(sentence(response.message))] : []), ...(response.videos_searched || !response.message ? [summary] : [])];
  setStatus(...lastStatus);
  ranks = new Map(response.hits.map((hit) => [hit.video.id, hit.rank]));
}

// The range of the evidence: from what most of the time looks like to the highest.
function measure(hits) {
  const values = hits.flatMap((hit) => hit.outline ?? []).sort((a, b) => a - b);
  low = values[Math.floor(values.length / 2)] ?? 0; high = values.at(-1) ?? 1;
  best = hits[0]?.outline?.length ? Math.max(...hits[0].outline) : high;
}

// How far a hit's evidence rises, compared with that of the first hit.
const strength = (hit) => (hit.outline?.length ? (Math.max(...hit.outline) - low) / Math.max(1e-6, best - low) : 1);
const isWeak = (hit, first) => !hit.matched && !hit.line && hit.confidence === null && hit.track === first.track && strength(hit) < 0.5;

// If the first hit stands out, those that match less than half as clearly are shown when somebody asks for them.
function fold(response) {
  const weak = response.confident ? response.hits.filter((hit) => isWeak(hit, response.hits[0])) : [];
  for (const hit of weak) byId("results").querySelector(`[data-moment="${hit.video.id}@${hit.start}"]`)?.classList.add("weak");
  byId("results").classList.toggle("folded", weak.length > 0);
  byId("weaker").hidden = !weak.length;
  byId("weaker").textContent = `Show ${count(weak.length, "weaker match", "weaker matches")}`;
  if (weak.length) byId("more").hidden = true;
}

function unfold() {
  byId("results").classList.remove("folded");
  byId("weaker").hidden = true;
  byId("more").hidden = cursor === null;
}

// The words that an encoder with a limited vocabulary used and ignored.
function about(response) {
  const { understood } = response;
  return understood?.ignored.length ? [`Understood: ${understood.used.join(", ") || "nothing"} · ignored: ${understood.ignored.join(", ")}`] : [];
}

// Why a hit is there: where the words were found, what is said, or how clearly the pictures match.
function note(hit) {
  if (!hit.matched) return hit.line ? `“${hit.line}”` : null;
  const { where, text } = hit.matched;
  return where === "subtitles" || where === "tags" ? `in the ${where}: “${text}”` : `in the ${where}`;
}

function clearness(hit) {
  if (hit.confidence !== null || !hit.outline?.length) return null;
  const share = strength(hit);
  return hit.rank === 1 ? "best match" : share > 0.85 ? "about as clear" : share > 0.5 ? "less clear" : "much less clear";
}

function card(hit, traced) {
  const when = `${clock(hit.start)} – ${clock(hit.end)}`;
  const confidence = hit.confidence === null ? null : `${Math.round(100 * hit.confidence)} % right`;
  const open = (start) => go({ video: String(hit.video.id), t: String(start) });
  const strip = make("span", { class: "strip" }, ...hit.thumbnail_urls.map((url) => make("img", { src: url, alt: "", loading: "lazy", width: 160, height: 120, decoding: "async" })));
  const earlier = earlierRanks?.get(hit.video.id);
  const moved = earlier && earlier !== hit.rank ? `rank ${earlier} ${traced ? "by single matches" : "with TRACE"}` : null;
  const clear = clearness(hit);
  const facts = make("span", { class: "facts" }, make("span", { class: "when" }, when),
    confidence ? make("span", { class: hit.confidence >= 0.9 ? "yes" : "", title: "how probable it is that this is the moment you mean" }, confidence) : null,
    clear ? make("span", { title: "compared with the other results of this search" }, clear) : null,
    hit.verdict ? make("span", {}, hit.verdict) : null, moved ? make("span", {}, moved) : null);
  const title = make("span", { class: "title" }, make("span", {}, `${hit.rank}`), ...breakable(hit.video.name));
  const also = hit.also_at.length ? `also at ${hit.also_at.join(", ")}` : null;
  const text = make("div", { class: "text" }, make("div", {}, title), facts, note(hit) ? make("p", { class: "subtitle" }, note(hit)) : null, also ? make("p", { class: "also" }, also) : null);
  const outline = hit.outline?.length ? drawOutline(hit.outline, hit.start, hit.end, hit.video.duration, low, high) : null;
  const button = make("button", { type: "button", "aria-label": `${hit.rank}. ${[hit.video.name, when, confidence, clear, moved, note(hit), also].filter(Boolean).join(", ")}. Play`, onclick: () => open(hit.start) }, strip, text, outline);
  const others = hit.moments.slice(1, 3).map((m) => make("button", { type: "button", class: "chip", onclick: () => open(m.start), "aria-label": `Play ${hit.video.name} at ${clock(m.start)}` }, `also ${clock(m.start)}`));
  const like = make("button", { type: "button", class: "chip", "aria-label": `More like ${hit.video.name} at ${clock(hit.start)}`, onclick: () => moreLike(hit.video.id, hit.start, hit.end) }, "More like this");
  const chips = make("div", { class: "chips", role: "group", "aria-label": `More of ${hit.video.name}` }, ...others, like, pick({ video: hit.video.id, start: hit.start, end: hit.end, name: hit.video.name }, "Pick"));
  const playing = state.video === String(hit.video.id) && hitOf(state.video, Number(state.t) || 0) === hit;
  return make("li", { class: `hit card${playing ? " playing" : ""}`, "data-video": hit.video.id, "data-moment": `${hit.video.id}@${hit.start}` }, button, chips);
}

// Search for moments that look like a stretch of a video.
export function moreLike(video, start, end) {
  scrollTo({ top: 0 });
  return go({ q: "", picture: "", like: `${video}@${start.toFixed(1)}-${Math.max(end, start + 0.5).toFixed(1)}`, video: "", t: "" });
}
