// Plays a video at its moment, shows the evidence below it, and what can be done with the moment.
import { byId, call, clock, make, sayProblem } from "./api.js";
import { addressOf, go, noteTime } from "./address.js";
import { drawCurves, drawRegisters } from "./curves.js";
import { drawWords } from "./words.js";
import { showDetails } from "./edit.js";
import { currentTime, load, play, seek as seekMedia, setUpMedia, unload } from "./media.js";
import { moreLike } from "./search.js";
import { pick } from "./selection.js";

const AROUND = 2; // seconds before and after the current time that "More like this" takes where there is no moment
let showTime = null; // moves the marker in the curves
let redraw = null;
let latest = 0; // number of the last call of openPlayer; earlier ones that are still loading give up
let shown = null; // { video, moment } in the player

export function setUpPlayer() {
  setUpMedia((time) => showTime?.(time));
  byId("close").addEventListener("click", () => go({ video: "", t: "" }));
  byId("like-this").addEventListener("click", () => {
    const now = currentTime(), moment = shown.moment ?? { start: Math.max(0, now - AROUND), end: Math.min(shown.video.duration ?? now + AROUND, now + AROUND) };
    moreLike(shown.video.id, moment.start, moment.end);
  });
  byId("copy-link").addEventListener("click", async () => {
    noteTime(currentTime());
    try { await navigator.clipboard.writeText(new URL(addressOf(), location.href).href); byId("copied").textContent = "Copied."; } catch { byId("copied").textContent = "Copy it from the address bar."; }
    setTimeout(() => { byId("copied").textContent = ""; }, 2500);
  });
  addEventListener("resize", () => redraw?.());
}

// `back`: whether the focus goes back to the card that was played.
export function closePlayer({ back = true } = {}) {
  latest++;
  if (byId("stage").hidden) return;
  byId("stage").hidden = true;
  document.querySelector(".columns").classList.remove("open");
  unload();
  shown = null;
  const last = document.querySelector(".card.playing");
  if (back) last?.querySelector("button").focus();
  last?.classList.remove("playing"); last?.removeAttribute("aria-current");
}

function seek(time) { seekMedia(time); noteTime(time); }

// `moment`: where the moment of the card begins, if the video has a card for each.
function markCard(video, moment) {
  for (const card of document.querySelectorAll(".card.playing")) { card.classList.remove("playing"); card.removeAttribute("aria-current"); }
  const cards = [...document.querySelectorAll(`.card[data-video="${video.id}"]`)].filter((each) => each.checkVisibility());
  const card = cards.find((each) => each.dataset.moment === `${video.id}@${moment}`) ?? cards[0];
  card?.classList.add("playing"); card?.setAttribute("aria-current", "true");
}

function useMoment(moment) {
  shown.moment = moment;
  const { start, end } = moment ?? { start: 0, end: shown.video.duration ?? 0 };
  byId("pick-this").replaceChildren(...(end > start ? [pick({ video: shown.video.id, start, end, name: shown.video.name }, moment ? `Pick ${clock(start)} – ${clock(end)}` : "Pick the whole video")] : []));
  for (const chip of byId("moments").children) chip.setAttribute("aria-pressed", String(Number(chip.dataset.start) === moment?.start));
}

// The moment that begins at a time, or else one that holds it.
const momentAt = (moments, time) => moments.find((moment) => Math.abs(moment.start - time) < 0.06) ?? moments.find((moment) => moment.start <= time && time <= moment.end) ?? null;

// Play a video from a time. `evidenceUrl`: where the evidence of the search is; null if there is none. `found`: where the
// moment of the hit begins.
export async function openPlayer({ video, start, found, moments, evidenceUrl, noEvidence }, { trace, focus }) {
  const number = ++latest, fresh = shown?.video.id !== video.id;
  byId("stage").hidden = false;
  document.querySelector(".columns").classList.add("open");
  byId("playing").textContent = video.name;
  shown = { video, moment: null };
  markCard(video, found);
  showDetails(video);
  byId("moments").replaceChildren();
  useMoment(momentAt(moments, start));
  load(video, start);
  showTime = redraw = null;
  byId("legend").textContent = byId("verdict").textContent = "";
  byId("registers").replaceChildren();
  byId("words").replaceChildren();
  byId("why").hidden = !evidenceUrl; byId("evidence").hidden = !evidenceUrl && !noEvidence;
  byId("curves").textContent = noEvidence ?? "Loading the evidence …";
  if (fresh && matchMedia("(max-width: 64rem)").matches) byId("stage").scrollIntoView({ block: "start" });
  if (focus) byId("close").focus({ preventScroll: true });
  if (!evidenceUrl) return;
  let evidence;
  try {
    evidence = await call("GET", evidenceUrl);
  } catch (problem) {
    if (number === latest) byId("curves").textContent = sayProblem(problem);
    return;
  }
  if (number !== latest) return;
  redraw = () => {
    showTime = drawCurves(byId("curves"), byId("legend"), evidence, { duration: video.duration, trace, seek, focus: start });
    showTime(currentTime() || start);
  };
  redraw();
  drawRegisters(byId("registers"), evidence.activation);
  if (evidence.words) drawWords(byId("words"), evidence.words, seek);
  byId("moments").replaceChildren(...evidence.moments.map((moment) => make("button", {
    type: "button", class: "chip", "data-start": moment.start, "aria-pressed": "false",
    onclick: () => { seek(moment.start); play(); useMoment(moment); },
  }, `${clock(moment.start)} – ${clock(moment.end)}`)));
  useMoment(momentAt(evidence.moments, start) ?? momentAt(moments, start));
  byId("verdict").textContent = evidence.why;
}
