// The video element. A file that the browser cannot play is shown in clips, which the server cuts around the wanted time.
import { byId, problemOf } from "./api.js";

const BEFORE = 2, AFTER = 22; // seconds of a clip before and after the wanted time
const PATIENCE = 250; // milliseconds between two clips while somebody drags
let film = null; // the video that is loaded
let clip = null; // { start, end } of the clip that is shown instead of the file
let wanted = 0; // the time that was asked for last, in seconds
let waiting = null, onTime = () => {};
const element = () => byId("video");

export function setUpMedia(whenTimeChanges) {
  onTime = whenTimeChanges;
  for (const name of ["timeupdate", "seeking"]) element().addEventListener(name, () => film && onTime(currentTime()));
  element().addEventListener("error", () => element().getAttribute("src") && failed());
  element().addEventListener("loadedmetadata", () => { if (!clip && film?.width && !element().videoWidth) useClips(wanted); }); // sound only
  element().addEventListener("playing", () => clip && say("Your browser cannot play this kind of file, so the server cuts it into clips as you go."));
  element().addEventListener("ended", () => { if (clip && film.duration && clip.end < film.duration - 0.5) cut(clip.end, 0); });
}

export const currentTime = () => (clip?.start ?? 0) + (element().currentTime || 0);
export const play = () => element().play().catch(() => {}); // a browser may refuse to start by itself

export function load(video, time) {
  wanted = time;
  say(null);
  clearTimeout(waiting);
  if (film?.id === video.id) { seek(time); return play(); }
  film = video; clip = null;
  if (isUnplayable(video)) return useClips(time);
  element().src = video.media_url;
  begin(time);
}

export function unload() {
  film = clip = null;
  clearTimeout(waiting);
  element().removeAttribute("src"); element().load();
}

export function seek(time) {
  wanted = time;
  onTime(time);
  if (!clip) { element().currentTime = time; return; }
  if (time >= clip.start && time <= clip.end) { element().currentTime = time - clip.start; return; }
  clearTimeout(waiting);
  waiting = setTimeout(() => cut(time), PATIENCE);
}

function begin(time) {
  const start = () => { element().currentTime = time; play(); };
  if (element().readyState >= 1) start(); else element().addEventListener("loadedmetadata", start, { once: true });
}

// Kinds of files that browsers say they cannot play; of others they may find out only while loading.
function isUnplayable(video) {
  const kind = { avi: "video/x-msvideo", wmv: "video/x-ms-wmv", flv: "video/x-flv", mpg: "video/mpeg", mpeg: "video/mpeg", ts: "video/mp2t", mts: "video/mp2t", vob: "video/mpeg" }[video.filename.split(".").pop().toLowerCase()];
  return Boolean(kind) && element().canPlayType(kind) === "";
}

function useClips(time) {
  say("Your browser cannot play this kind of file, so the server cuts the moment out of it …");
  cut(time);
}

function cut(time, before = BEFORE) {
  const start = Math.max(0, time - before), end = Math.min(film.duration || time + AFTER, time + AFTER);
  clip = { start: Math.min(start, Math.max(0, end - 1)), end };
  element().src = `/v1/videos/${film.id}/clip?start=${clip.start.toFixed(2)}&end=${end.toFixed(2)}&margin=0`;
  begin(time - clip.start);
}

async function failed() {
  const own = film, address = element().src, inClips = Boolean(clip);
  try {
    const response = await fetch(address, inClips ? {} : { headers: { Range: "bytes=0-0" } }); // HEAD would not say what is wrong
    if (own !== film) return;
    if (response.ok && !inClips) return useClips(wanted);
    const problem = response.ok ? null : await problemOf(response);
    say(problem ? `${problem.message} ${problem.remedy}` : "Your browser cannot play this video.", true);
  } catch { if (own === film) say("The server does not answer.", true); }
}

function say(text, bad = false) {
  const place = byId("media-problem");
  place.textContent = text ?? ""; place.hidden = !text;
  place.classList.toggle("bad", bad);
}
