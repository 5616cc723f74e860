// Plays a video at its moment and shows the evidence below it.
import { byId, call, clock, make } from "./api.js";
import { drawCurves, drawRegisters } from "./curves.js";

let showTime = null; // moves the marker in the curves
let redraw = null;
let latest = 0; // number of the last call of play; earlier ones that are still loading give up
const video = () => byId("video");

export function setUpPlayer() {
  video().addEventListener("timeupdate", () => showTime && showTime(video().currentTime));
  video().addEventListener("seeking", () => showTime && showTime(video().currentTime));
  video().addEventListener("error", async () => {
    if (!video().getAttribute("src")) return;
    let text = "Your browser cannot play this kind of file. The evidence below still shows where the moment is.";
    try { await fetch(video().src, { method: "HEAD" }).then((r) => { if (!r.ok) text = "The file was changed or deleted. Add it again."; }); } catch { text = "The server does not answer."; }
    byId("media-problem").textContent = text;
    byId("media-problem").hidden = false;
  });
  byId("close").addEventListener("click", closePlayer);
  addEventListener("resize", () => redraw && redraw());
}

export function closePlayer() {
  latest++;
  byId("stage").hidden = true;
  document.querySelector(".columns").classList.remove("open");
  video().removeAttribute("src"); video().load();
  document.querySelector(".hit.playing button")?.focus();
  const last = document.querySelector(".hit.playing");
  last?.classList.remove("playing"); last?.removeAttribute("aria-current");
}

function seek(time) { video().currentTime = time; if (showTime) showTime(time); }

export async function play(hit, start, trace) {
  const number = ++latest;
  byId("stage").hidden = false;
  document.querySelector(".columns").classList.add("open");
  byId("playing").textContent = hit.video.name;
  byId("media-problem").hidden = true;
  if (video().getAttribute("src") !== hit.video.media_url) { video().src = hit.video.media_url; }
  const begin = () => { video().currentTime = start; video().play().catch(() => {}); };
  if (video().readyState >= 1) begin(); else video().addEventListener("loadedmetadata", begin, { once: true });
  showTime = redraw = null;
  byId("curves").textContent = "Loading the evidence …";
  byId("legend").textContent = byId("verdict").textContent = "";
  byId("registers").replaceChildren(); byId("moments").replaceChildren();
  if (matchMedia("(max-width: 64rem)").matches) byId("stage").scrollIntoView({ block: "start" });
  byId("close").focus({ preventScroll: true });
  let evidence;
  try {
    evidence = await call("GET", hit.evidence_url);
  } catch (problem) {
    if (number === latest) byId("curves").textContent = `${problem.message} ${problem.remedy || ""}`;
    return;
  }
  if (number !== latest) return;
  redraw = () => {
    showTime = drawCurves(byId("curves"), byId("legend"), evidence, { duration: hit.video.duration, trace, seek });
    showTime(video().currentTime || start);
  };
  redraw();
  drawRegisters(byId("registers"), evidence.activation);
  byId("moments").replaceChildren(...evidence.moments.map((moment) => make("button", {
    type: "button", class: "chip", "aria-pressed": String(Math.abs(moment.start - start) < 0.05),
    onclick: (event) => {
      seek(moment.start); video().play().catch(() => {});
      for (const chip of byId("moments").children) chip.setAttribute("aria-pressed", String(chip === event.currentTarget));
    },
  }, `${clock(moment.start)} – ${clock(moment.end)}`)));
  byId("verdict").textContent = evidence.why;
}
