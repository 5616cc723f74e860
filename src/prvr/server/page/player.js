// The video at its moment, with the evidence under it.
import { byId, call, clock, make } from "./api.js";
import { drawCurves, drawRegisters } from "./curves.js";

let show = null, latest = 0, redraw = null;
const video = () => byId("video");

export function setUpPlayer() {
  video().addEventListener("timeupdate", () => show && show(video().currentTime));
  video().addEventListener("seeking", () => show && show(video().currentTime));
  video().addEventListener("error", async () => {
    if (!video().getAttribute("src")) return;
    let words = "Your browser cannot play this kind of file. The evidence below still shows where to look.";
    try { await fetch(video().src, { method: "HEAD" }).then((r) => { if (!r.ok) words = "The file was changed or deleted. Add it again."; }); } catch { words = "The server does not answer."; }
    byId("media-problem").textContent = words;
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

function seek(time) { video().currentTime = time; if (show) show(time); }

export async function play(hit, start, trace) {
  const turn = ++latest;
  byId("stage").hidden = false;
  document.querySelector(".columns").classList.add("open");
  byId("playing").textContent = hit.video.title;
  byId("media-problem").hidden = true;
  if (video().getAttribute("src") !== hit.video.media_url) { video().src = hit.video.media_url; }
  const begin = () => { video().currentTime = start; video().play().catch(() => {}); };
  if (video().readyState >= 1) begin(); else video().addEventListener("loadedmetadata", begin, { once: true });
  show = redraw = null;
  byId("curves").textContent = "Reading the evidence …";
  byId("legend").textContent = byId("verdict").textContent = "";
  byId("registers").replaceChildren(); byId("moments").replaceChildren();
  if (matchMedia("(max-width: 64rem)").matches) byId("stage").scrollIntoView({ block: "start" });
  byId("close").focus({ preventScroll: true });
  let found;
  try {
    found = await call("GET", hit.evidence_url);
  } catch (problem) {
    if (turn === latest) byId("curves").textContent = `${problem.message} ${problem.remedy || ""}`;
    return;
  }
  if (turn !== latest) return;
  redraw = () => {
    show = drawCurves(byId("curves"), byId("legend"), found, { duration: hit.video.duration, trace, seek });
    show(video().currentTime || start);
  };
  redraw();
  drawRegisters(byId("registers"), found.activation);
  byId("moments").replaceChildren(...found.moments.map((moment) => make("button", {
    type: "button", class: "chip", "aria-pressed": String(Math.abs(moment.start - start) < 0.05),
    onclick: (event) => {
      seek(moment.start); video().play().catch(() => {});
      for (const chip of byId("moments").children) chip.setAttribute("aria-pressed", String(chip === event.currentTarget));
    },
  }, `${clock(moment.start)} – ${clock(moment.end)}`)));
  byId("verdict").textContent = verdict(found, trace);
}

function verdict(found, trace) {
  const at = (peak) => `${clock(peak.start)}–${clock(peak.end)}`;
  if (!trace) return `Plain max pooling picks ${at(found.direct_peak)}.` + (found.unsupported ? ` TRACE would pick ${at(found.routed_peak)}: the rest of the video does not support this peak.` : " TRACE picks the same place.");
  if (found.unsupported) return `The strongest single response is at ${at(found.direct_peak)}, but the registers support it less: TRACE picks ${at(found.routed_peak)}.`;
  return `The strongest response, at ${at(found.direct_peak)}, is supported by the rest of the video.`;
}
