// The library without a query: folders, tags, example searches, and all videos in a grid, page by page while one scrolls.
import { breakable, byId, call, clock, make, sayProblem, sentence } from "./api.js";
import { go, listOf, state } from "./address.js";
import { moveBetweenCards, placeholders, retryPictures } from "./cards.js";
import { confirmRemoval } from "./edit.js";
import { notice, setStatus } from "./search.js";

const PAGE = 48;
const BY_ITSELF = 10; // pages that scrolling loads; then somebody presses the button, so that the page stays light
let shownFor = null, cursor = null, running = null, ids = new Set(), total = 0, pages = 0;
let atTheEnd = null; // notices when the end of the list comes near
let library = null, askToken = () => {};

export function setUpBrowsing(whenTokenIsNeeded) {
  askToken = whenTokenIsNeeded;
  byId("more-films").addEventListener("click", () => { pages = 0; load(true); });
  byId("sort").addEventListener("change", () => go({ sort: byId("sort").value }));
  byId("show-failed").addEventListener("click", () => go({ failed: state.failed ? "" : "1", video: "", t: "" }));
  byId("fresh").addEventListener("click", () => { byId("fresh").hidden = true; scrollTo({ top: 0 }); shownFor = null; showLibrary(); });
  moveBetweenCards(byId("films"), ".film > button");
  retryPictures();
  atTheEnd = new IntersectionObserver((entries) => { if (entries.at(-1).isIntersecting && cursor && !running && pages < BY_ITSELF) load(true); }, { rootMargin: "900px" });
}

export function hideLibrary() { byId("browse").hidden = true; }

// What GET /v1/library says: tags, failed files, whether anything can be changed.
export function describeLibrary(found) {
  library = found;
  byId("show-failed").hidden = !library.failed && !state.failed;
  byId("show-failed").textContent = state.failed ? "Back to the videos" : `${library.failed.toLocaleString("en")} could not be read`;
  byId("examples").hidden = Boolean(state.failed);
  chips("tags", (state.failed ? [] : library.tags).slice(0, 30).map((tag) => ({ text: `#${tag}`, on: tag === state.tag, go: { tag: tag === state.tag ? "" : tag, video: "", t: "" } })));
}

export async function showLibrary() {
  byId("browse").hidden = false;
  byId("sort").value = state.sort;
  byId("sort-label").hidden = Boolean(state.failed);
  if (library) describeLibrary(library);
  if (!shownFor || shownFor.folder !== state.folder || shownFor.failed !== state.failed) folders();
  if (shownFor && listOf(shownFor) === listOf(state)) return describeList();
  shownFor = { ...state };
  await load(false);
  if (!byId("examples").hasChildNodes()) examples();
}

// The library has changed: show it at once at the top of the page, and offer it to somebody who has scrolled.
export function libraryChanged() {
  if (byId("browse").hidden) { shownFor = null; return; }
  folders();
  if (!byId("examples").querySelector("button")) examples();
  if (scrollY < 300) { shownFor = { ...state }; load(false, true); } else byId("fresh").hidden = false;
}

function chips(id, entries) {
  byId(id).hidden = !entries.length;
  byId(id).replaceChildren(...entries.map((entry) => make("button", { type: "button", class: "chip", "aria-pressed": entry.on === undefined ? null : String(entry.on), onclick: () => go(entry.go) }, entry.text, entry.number ? make("span", { class: "number" }, ` ${entry.number.toLocaleString("en")}`) : null)));
}

async function folders() {
  const folder = state.folder;
  if (!byId("inner").hasChildNodes()) byId("inner").hidden = !library?.folders.some((name) => name.startsWith(folder) && name !== folder); // keeps its place free
  const steps = folder.startsWith("s3://") || folder.startsWith("gs://") || folder.startsWith("az://") ? [folder] : folder.split("/").filter(Boolean);
  const crumb = (text, path, last) => (last ? make("span", { "aria-current": "page" }, text) : make("button", { type: "button", class: "crumb", onclick: () => go({ folder: path, failed: "", video: "", t: "" }) }, text));
  const all = state.failed ? "Unreadable files" : "All videos";
  byId("place").replaceChildren(crumb(all, "", !steps.length), ...steps.flatMap((step, i) => [" / ", crumb(step, steps.slice(0, i + 1).join("/"), i === steps.length - 1)]));
  if (state.failed) return chips("inner", []);
  try {
    const inner = (await call("GET", `/v1/library/folders?${new URLSearchParams({ folder })}`)).folders;
    if (folder === state.folder && !state.failed) chips("inner", inner.map((each) => ({ text: `${each.name}/`, number: each.videos, go: { folder: each.folder, video: "", t: "" } })));
  } catch (problem) { if (problem.status === 401) askToken(); else chips("inner", []); }
}

async function examples() {
  if (!library?.videos) return;
  byId("examples").textContent = "Looking for example searches …";
  let found = [];
  try { found = (await call("GET", "/v1/library/examples")).examples; } catch { /* then there are none */ }
  byId("examples").replaceChildren(...(found.length ? [make("span", { class: "quiet" }, "Try: "), ...found.map((text) => make("button", { type: "button", class: "chip", onclick: () => go({ q: text, like: "", picture: "", video: "", t: "" }) }, text))] : []));
}

async function load(more, quiet = false) {
  running?.abort();
  const own = (running = new AbortController());
  if (!more) {
    cursor = null; byId("more-films").hidden = true; byId("fresh").hidden = true;
    if (!quiet) byId("films").replaceChildren(...placeholders(12));
  }
  const asked = { status: state.failed ? "failed" : "ok", order: ["newest", "recent", "name", "longest"].includes(state.sort) ? state.sort : "newest", limit: PAGE, ...(state.folder && { folder: state.folder }), ...(state.tag && { tag: state.tag }), ...(more && { cursor }) };
  try {
    const page = await call("GET", `/v1/videos?${new URLSearchParams(asked)}`, undefined, own.signal);
    if (!more) ids = new Set();
    const fresh = page.videos.filter((video) => !ids.has(video.id)); // videos may come in between two pages
    for (const video of fresh) ids.add(video.id);
    const cards = fresh.map(state.failed ? failedFile : film);
    const focused = byId("films").contains(document.activeElement) ? document.activeElement.closest(".card")?.dataset.video : null;
    if (more) byId("films").append(...cards); else byId("films").replaceChildren(...cards);
    if (focused && !more) byId("films").querySelector(`[data-video="${focused}"] button`)?.focus({ preventScroll: true });
    total = page.total; cursor = page.next_cursor;
    byId("more-films").hidden = cursor === null;
    byId("more-films").textContent = `More videos (${(total - ids.size).toLocaleString("en")} left)`;
    pages = more ? pages + 1 : 1;
    describeList();
  } catch (problem) {
    if (problem.name === "AbortError") return;
    shownFor = null;
    if (problem.status === 401) return askToken();
    if (!more) byId("films").replaceChildren();
    setStatus(notice(sayProblem(problem), true));
  } finally {
    if (own === running) { running = null; atTheEnd.unobserve(byId("more-films")); atTheEnd.observe(byId("more-films")); } // it tells anew where the end is
  }
}

function describeList() {
  const narrowed = state.folder || state.tag || state.failed;
  byId("total").textContent = total.toLocaleString("en");
  if (!total && !narrowed) return setStatus(notice(library?.failed ? "No video of this library can be searched yet: none of its files could be read." : "This library is empty. Add videos, then search them here."));
  if (!total) return setStatus(notice(state.failed ? "Every file could be read." : "There are no videos here."));
  setStatus(...(state.failed ? ["Files that could not be read, with the reason. They are tried again when they are added again."] : []));
}

const day = (text) => new Date(text).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });

function film(video) {
  const picture = make("span", { class: "still" }, make("img", { src: video.thumbnail_url, alt: "", loading: "lazy", decoding: "async", width: 320, height: 180 }), video.duration === null ? null : make("span", { class: "length" }, clock(video.duration)));
  const text = make("span", { class: "text" }, make("span", { class: "title" }, video.filename), make("span", { class: "facts" }, make("span", {}, day(video.date)), video.folder && video.folder !== state.folder ? make("span", {}, video.folder) : null, ...video.tags.map((tag) => make("span", {}, `#${tag}`)), video.problem ? make("span", { class: "warn" }, video.problem) : null));
  const open = () => go({ video: String(video.id), t: "" });
  return make("li", { class: `film card${state.video === String(video.id) ? " playing" : ""}`, "data-video": video.id }, make("button", { type: "button", "aria-label": `${video.name}, ${video.duration === null ? "" : clock(video.duration) + ", "}${day(video.date)}. Play`, onclick: open }, picture, text));
}

function failedFile(video) {
  const remove = library?.writable ? make("button", { type: "button", class: "plain small", "aria-label": `Remove ${video.name}`, onclick: () => confirmRemoval(video) }, "Remove …") : null;
  return make("li", { class: "film failed card", "data-video": video.id }, make("div", { class: "text" }, make("span", { class: "title" }, ...breakable(video.name)), make("p", { class: "reason" }, sentence(video.problem ?? "no reason is known")), make("span", { class: "facts" }, make("span", {}, `tried on ${day(video.added)}`), remove)));
}

