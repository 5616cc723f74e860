// Draws the evidence over time as an SVG: three curves, moments as bands, both peaks and the player's position.
// A click, a drag or the arrow keys seek in the video.
import { clock, make } from "./api.js";

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 1000, HEIGHT = 170, TOP = 22, BOTTOM = 146;
const TICK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
const NAMES = { direct: "match with your words", support: "support by the rest of the video", routed: "both together" };

// Seconds between two labels of the time axis, so that there are at most this many steps.
function tickStep(length, most) {
  return TICK_STEPS.find((step) => length / step <= most) ?? 3600 * Math.ceil(length / most / 3600);
}

function svg(tag, attributes, text) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

export function drawCurves(container, legend, evidence, { duration, trace, seek }) {
  const middles = evidence.spans.map(([a, b]) => (a + b) / 2);
  const length = Math.max(duration || 0, ...evidence.spans.map((span) => span[1]), 0.1);
  const width = Math.max(320, container.clientWidth || WIDTH);
  const shown = trace ? ["direct", "support", "routed"] : ["direct"];
  const all = shown.flatMap((name) => evidence[name]);
  const low = Math.min(...all), high = Math.max(...all, low + 1e-6);
  const x = (time) => (time / length) * width;
  const y = (value) => BOTTOM - ((value - low) / (high - low)) * (BOTTOM - TOP);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", role: "slider", tabindex: 0,
    "aria-label": "Evidence over time. Arrow keys move through the video.",
    "aria-valuemin": 0, "aria-valuemax": length.toFixed(1), "aria-valuenow": 0,
  });
  for (const moment of evidence.moments) {
    picture.append(svg("rect", { class: "span", x: x(moment.start), y: 0, width: Math.max(2, x(moment.end) - x(moment.start)), height: BOTTOM }));
  }
  picture.append(svg("line", { class: "axis", x1: 0, x2: width, y1: BOTTOM, y2: BOTTOM }));
  for (let time = 0, step = tickStep(length, width < 480 ? 4 : 8); time <= length; time += step) {
    const anchor = time === 0 ? "start" : x(time) > width - 20 ? "end" : "middle";
    picture.append(svg("text", { x: x(time), y: HEIGHT - 6, "text-anchor": anchor }, clock(time)));
  }
  for (const name of shown) {
    const points = middles.map((time, i) => `${x(time).toFixed(1)} ${y(evidence[name][i]).toFixed(1)}`);
    const first = `M0 ${y(evidence[name][0]).toFixed(1)} L`, last = ` L${width} ${y(evidence[name].at(-1)).toFixed(1)}`;
    picture.append(svg("path", { class: name, d: first + points.join(" L") + last }));
  }
  const mark = (peak, curve, kind) => svg("circle", { class: kind, cx: x((peak.start + peak.end) / 2), cy: y(evidence[curve][peak.index]), r: 6 });
  picture.append(mark(evidence.direct_peak, "direct", "mark-direct"));
  if (trace) picture.append(mark(evidence.routed_peak, "routed", "mark-routed"));
  const now = svg("line", { class: "now", x1: 0, x2: 0, y1: 0, y2: BOTTOM });
  const hover = svg("line", { class: "hover", x1: 0, x2: 0, y1: 0, y2: BOTTOM, visibility: "hidden" });
  picture.append(now, hover);

  const nearest = (time) => middles.reduce((best, middle, i) => (Math.abs(middle - time) < Math.abs(middles[best] - time) ? i : best), 0);
  const updateLegend = (time) => {
    const i = nearest(time);
    const parts = shown.map((name) => {
      const part = make("span", { class: name }, make("i"));
      part.append(`${NAMES[name]} `, make("b", {}, evidence[name][i].toFixed(2)));
      return part;
    });
    legend.replaceChildren(make("span", {}, `at ${clock(time, true)}`), ...parts);
  };
  const timeAt = (event) => {
    const box = picture.getBoundingClientRect();
    return Math.min(length, Math.max(0, ((event.clientX - box.left) / box.width) * length));
  };
  let holding = false;
  picture.addEventListener("pointerdown", (event) => { holding = true; picture.setPointerCapture(event.pointerId); seek(timeAt(event)); });
  picture.addEventListener("pointerup", () => { holding = false; });
  picture.addEventListener("pointermove", (event) => {
    const time = timeAt(event);
    hover.setAttribute("x1", x(time)); hover.setAttribute("x2", x(time)); hover.setAttribute("visibility", "visible");
    updateLegend(time);
    if (holding) seek(time);
  });
  picture.addEventListener("pointerleave", () => { hover.setAttribute("visibility", "hidden"); updateLegend(current); });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (step !== undefined) seek(Math.min(length, Math.max(0, current + step)));
    else if (event.key === "Home") seek(0);
    else if (event.key === "End") seek(length);
    else return;
    event.preventDefault();
  });
  let current = 0;
  const show = (time) => {
    current = time;
    now.setAttribute("x1", x(time)); now.setAttribute("x2", x(time));
    picture.setAttribute("aria-valuenow", time.toFixed(1));
    picture.setAttribute("aria-valuetext", `${clock(time)}, evidence ${evidence[trace ? "routed" : "direct"][nearest(time)].toFixed(2)}`);
    updateLegend(time);
  };
  container.replaceChildren(picture);
  show(0);
  return show;
}

export function drawRegisters(container, activation) {
  const strong = activation.map((value, i) => [value, i]).filter(([value]) => value >= 1 / activation.length);
  const strongest = strong.sort((a, b) => b[0] - a[0]).map(([value, i]) => `${i + 1} (${Math.round(100 * value)} %)`).join(", ");
  const most = Math.max(...activation, 1e-6), step = 100 / activation.length;
  const picture = svg("svg", { viewBox: "0 0 100 50", preserveAspectRatio: "none", "aria-hidden": "true" });
  activation.forEach((value, i) => {
    const height = Math.max(1, (48 * value) / most);
    picture.append(svg("rect", { x: i * step, y: 50 - height, width: step * 0.8, height, class: value >= 1 / activation.length ? "" : "weak" }));
  });
  container.replaceChildren(make("span", {}, `Parts of the video's summary (registers) that your words activate, of ${activation.length}: ${strongest || "all equal"}`), make("div", { class: "bars" }, picture));
}
