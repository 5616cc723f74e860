// Draws the evidence over time as an SVG: three curves, moments as bands, both peaks and the player's position.
// A click, a drag or the arrow keys seek in the video. Long videos are shown zoomed, with an overview to move in.
import { clock, make } from "./api.js";

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 1000, HEIGHT = 170, TOP = 22, BOTTOM = 146, SMALL = 34;
const TICK_STEPS = [0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
const NAMES = { direct: "match with your words", support: "support by the rest of the video", routed: "both together" };
const LONG = 600; // seconds; longer videos are shown zoomed at first
const FIRST_VIEW = 240, SHORTEST = 4; // seconds in view at first, and at least

// Seconds between two labels of the time axis, so that there are at most this many steps.
const tickStep = (length, most) => TICK_STEPS.find((step) => length / step <= most) ?? 3600 * Math.ceil(length / most / 3600);

export function svg(tag, attributes, text) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A path through points, with the lowest and highest of those that share a pixel, and a gap at each time in `breaks`.
function pathOf(times, values, x, y, breaks = []) {
  let path = "", pixel = null, low = 0, high = 0, next = 0, begins = true;
  const flush = () => { if (pixel !== null) { path += `${begins ? "M" : "L"}${pixel} ${y(low).toFixed(1)}` + (high > low ? `L${pixel} ${y(high).toFixed(1)}` : ""); begins = false; pixel = null; } };
  times.forEach((time, i) => {
    const at = x(time).toFixed(1);
    if (next < breaks.length && time >= breaks[next]) { flush(); begins = true; while (next < breaks.length && time >= breaks[next]) next++; }
    if (at !== pixel) { flush(); pixel = at; low = high = values[i]; } else { low = Math.min(low, values[i]); high = Math.max(high, values[i]); }
  });
  flush();
  return path;
}

// Where two sections of a long video meet: in the middle of what they share.
const joints = (sections) => sections.slice(1).map(([start], i) => (start + Math.max(start, sections[i][1])) / 2);

export function drawCurves(container, legend, evidence, { duration, trace, seek, focus }) {
  const middles = evidence.spans.map(([a, b]) => (a + b) / 2), breaks = trace ? joints(evidence.sections ?? []) : [];
  const length = evidence.spans.reduce((most, span) => Math.max(most, span[1]), duration || 0.1);
  const width = Math.max(320, container.clientWidth || WIDTH);
  const shown = trace ? ["direct", "support", "routed"] : ["direct"], main = trace ? "routed" : "direct";
  const low = Math.min(...shown.map((name) => evidence[name].reduce((a, b) => Math.min(a, b)))), high = Math.max(...shown.map((name) => evidence[name].reduce((a, b) => Math.max(a, b))), low + 1e-6);
  const y = (value) => BOTTOM - ((value - low) / (high - low)) * (BOTTOM - TOP);
  let from = 0, to = length, current = 0, holding = false;
  const x = (time) => ((time - from) / (to - from)) * width;

  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", role: "slider", tabindex: 0,
    "aria-label": "Evidence over time. Arrow keys move through the video, plus and minus zoom.",
    "aria-valuemin": 0, "aria-valuemax": length.toFixed(1), "aria-valuenow": 0,
  });
  const layer = svg("g", {}), now = svg("line", { class: "now", y1: 0, y2: BOTTOM }), hover = svg("line", { class: "hover", y1: 0, y2: BOTTOM, visibility: "hidden" });
  picture.append(layer, now, hover);
  const place = (line, time) => { const at = Math.min(width + 9, Math.max(-9, x(time))); line.setAttribute("x1", at); line.setAttribute("x2", at); };
  const overview = length > LONG / 10 ? new Overview(width, length, (time) => seek(time), (a, b) => view(a, b)) : null;

  function draw() {
    const parts = [];
    for (const moment of evidence.moments) if (moment.end > from && moment.start < to) parts.push(svg("rect", { class: "span", x: x(moment.start), y: 0, width: Math.max(2, x(moment.end) - x(moment.start)), height: BOTTOM }));
    for (const time of breaks) if (time > from && time < to) parts.push(svg("line", { class: "joint", x1: x(time), x2: x(time), y1: 0, y2: BOTTOM }));
    parts.push(svg("line", { class: "axis", x1: 0, x2: width, y1: BOTTOM, y2: BOTTOM }));
    const step = tickStep(to - from, width < 480 ? 4 : 8);
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const anchor = x(time) < 18 ? "start" : x(time) > width - 22 ? "end" : "middle";
      parts.push(svg("text", { x: x(time), y: HEIGHT - 6, "text-anchor": anchor }, clock(time, step < 1)));
    }
    let first = middles.findIndex((time) => time >= from), last = middles.findLastIndex((time) => time <= to);
    first = Math.max(0, (first < 0 ? middles.length : first) - 1); last = Math.min(middles.length - 1, last + 1);
    const times = middles.slice(first, last + 1);
    for (const name of shown) {
      const values = evidence[name].slice(first, last + 1);
      const padded = [...(first === 0 ? [0] : []), ...times, ...(last === middles.length - 1 ? [length] : [])];
      const heights = [...(first === 0 ? [values[0]] : []), ...values, ...(last === middles.length - 1 ? [values.at(-1)] : [])];
      parts.push(svg("path", { class: name, d: pathOf(padded, heights, x, y, name === "direct" ? [] : breaks) }));
    }
    const mark = (peak, curve, kind) => { const time = (peak.start + peak.end) / 2; if (time >= from && time <= to) parts.push(svg("circle", { class: kind, cx: x(time), cy: y(evidence[curve][peak.index]), r: 6 })); };
    mark(evidence.direct_peak, "direct", "mark-direct");
    if (trace) mark(evidence.routed_peak, "routed", "mark-routed");
    layer.replaceChildren(...parts);
    place(now, current);
    overview?.showWindow(from, to);
    if (zoomed) { zoomed.whole.disabled = from === 0 && to === length; zoomed.less.disabled = zoomed.whole.disabled; zoomed.more.disabled = to - from <= SHORTEST; }
  }

  function view(a, b) {
    const span = Math.min(length, Math.max(Math.min(SHORTEST, length), b - a)), start = Math.min(length - span, Math.max(0, a));
    if (start === from && start + span === to) return;
    from = start; to = start + span;
    draw();
  }
  const zoom = (factor, around = current >= from && current <= to ? current : (from + to) / 2) => view(around - (around - from) * factor, around + (to - around) * factor);

  const nearest = (time) => { // the spans are in order of time
    let a = 0, b = middles.length - 1;
    while (b - a > 1) { const middle = (a + b) >> 1; if (middles[middle] < time) a = middle; else b = middle; }
    return Math.abs(middles[a] - time) <= Math.abs(middles[b] - time) ? a : b;
  };
  const updateLegend = (time) => {
    const i = nearest(time);
    const parts = shown.map((name) => make("span", { class: name }, make("i"), `${NAMES[name]} `, make("b", {}, evidence[name][i].toFixed(2))));
    legend.replaceChildren(make("span", {}, `at ${clock(time, true)}`), ...parts);
  };
  const timeAt = (clientX) => { const box = picture.getBoundingClientRect(); return Math.min(length, Math.max(0, from + ((clientX - box.left) / box.width) * (to - from))); };

  const fingers = new Map(); // where each pointer is that touches the curve
  picture.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event.clientX);
    picture.setPointerCapture(event.pointerId);
    holding = fingers.size === 1;
    if (holding) seek(timeAt(event.clientX));
  });
  const release = (event) => { fingers.delete(event.pointerId); holding = false; };
  picture.addEventListener("pointerup", release);
  picture.addEventListener("pointercancel", release);
  picture.addEventListener("pointermove", (event) => {
    if (fingers.size === 2 && fingers.has(event.pointerId)) { // pinch
      const [other] = [...fingers].find(([id]) => id !== event.pointerId).slice(1);
      const before = Math.abs(fingers.get(event.pointerId) - other), after = Math.abs(event.clientX - other);
      if (before > 8 && after > 8) zoom(before / after, timeAt((event.clientX + other) / 2));
      fingers.set(event.pointerId, event.clientX);
      return;
    }
    const time = timeAt(event.clientX);
    place(hover, time); hover.setAttribute("visibility", "visible");
    updateLegend(time);
    if (holding) seek(time);
  });
  picture.addEventListener("pointerleave", () => { hover.setAttribute("visibility", "hidden"); updateLegend(current); });
  picture.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(Math.exp(event.deltaY * 0.01), timeAt(event.clientX)); } // also a pinch on a touchpad
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && to - from < length) { event.preventDefault(); const by = (event.deltaX / width) * (to - from); view(from + by, to + by); }
  }, { passive: false });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (step !== undefined) seek(Math.min(length, Math.max(0, current + step)));
    else if (event.key === "Home") seek(0);
    else if (event.key === "End") seek(length);
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "0") view(0, length);
    else return;
    event.preventDefault();
  });

  const button = (label, text, onclick) => make("button", { type: "button", class: "plain small", "aria-label": label, title: label, onclick }, text);
  const zoomed = overview && { more: button("Zoom in", "+", () => zoom(0.5)), less: button("Zoom out", "−", () => zoom(2)), whole: button("Show the whole video", "Whole video", () => view(0, length)) };
  if (overview) overview.draw(middles, evidence[main], evidence.moments);
  const joint = breaks.length ? make("p", { class: "quiet joints" }, `This long video is compared in ${breaks.length + 1} parts, which meet at the dotted lines. Support counts inside one part only, so it begins anew there.`) : null;
  container.replaceChildren(...[picture, overview?.picture, zoomed && make("div", { class: "zoom" }, zoomed.less, zoomed.more, zoomed.whole), joint].filter(Boolean));
  draw();
  if (length > LONG && focus !== undefined) view(focus - FIRST_VIEW / 3, focus + (2 * FIRST_VIEW) / 3);

  return (time) => {
    current = time;
    if (!holding && (time < from || time > to)) view(time - (to - from) / 4, time + (3 * (to - from)) / 4); // follow the player
    place(now, time);
    overview?.showTime(time);
    picture.setAttribute("aria-valuenow", time.toFixed(1));
    picture.setAttribute("aria-valuetext", `${clock(time)}, evidence ${evidence[main][nearest(time)].toFixed(2)}`);
    updateLegend(time);
  };
}

// The whole video in a narrow strip, with the part that the curves show. A drag moves that part; a click goes there.
class Overview {
  constructor(width, length, seek, view) {
    Object.assign(this, { width, length });
    this.picture = svg("svg", { class: "overview", viewBox: `0 0 ${width} ${SMALL}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    this.frame = svg("rect", { class: "frame", y: 1, height: SMALL - 2 });
    this.now = svg("line", { class: "now", y1: 0, y2: SMALL });
    let drag = null;
    const timeAt = (event) => { const box = this.picture.getBoundingClientRect(); return ((event.clientX - box.left) / box.width) * length; };
    this.picture.addEventListener("pointerdown", (event) => { this.picture.setPointerCapture(event.pointerId); drag = { time: timeAt(event), from: this.from, moved: false }; });
    this.picture.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const by = timeAt(event) - drag.time, span = this.to - this.from;
      drag.moved ||= Math.abs(by) > length / 200;
      if (drag.moved && span < length) { const inside = drag.time >= drag.from && drag.time <= drag.from + span; const start = inside ? drag.from + by : timeAt(event) - span / 2; view(start, start + span); }
    });
    this.picture.addEventListener("pointerup", (event) => { if (drag && !drag.moved) { const time = Math.min(length, Math.max(0, timeAt(event))), span = this.to - this.from; view(time - span / 2, time + span / 2); seek(time); } drag = null; });
  }

  draw(times, values, moments) {
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b), low + 1e-6);
    const x = (time) => (time / this.length) * this.width, y = (value) => SMALL - 3 - ((value - low) / (high - low)) * (SMALL - 6);
    const bands = moments.map((moment) => svg("rect", { class: "span", x: x(moment.start), y: 0, width: Math.max(2, x(moment.end) - x(moment.start)), height: SMALL }));
    this.picture.append(...bands, svg("polyline", { class: "line", points: pathOf(times, values, x, y).replace(/[ML]/g, " ").trim() }), this.frame, this.now);
  }

  showWindow(from, to) {
    Object.assign(this, { from, to });
    this.frame.setAttribute("x", (from / this.length) * this.width);
    this.frame.setAttribute("width", Math.max(4, ((to - from) / this.length) * this.width));
  }

  showTime(time) { for (const name of ["x1", "x2"]) this.now.setAttribute(name, (time / this.length) * this.width); }
}

// The evidence of a hit in one small line, with its moment; `low` and `high` are those of all hits of the search.
export function drawOutline(outline, start, end, duration, low, high) {
  const picture = svg("svg", { class: "outline", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" });
  const length = Math.max(duration || 0, end, 0.1), x = (i) => ((i + 0.5) / outline.length) * 100;
  const y = (value) => 22 - (Math.min(1, Math.max(0, (value - low) / Math.max(1e-6, high - low)))) * 20;
  picture.append(svg("rect", { class: "span", x: (100 * start) / length, y: 0, width: Math.max(1, (100 * (end - start)) / length), height: 24 }));
  const points = outline.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`);
  if (points.length) picture.append(svg("polyline", { points: [`0,${y(outline[0]).toFixed(1)}`, ...points, `100,${y(outline.at(-1)).toFixed(1)}`].join(" ") }));
  return picture;
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
