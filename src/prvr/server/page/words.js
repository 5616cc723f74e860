// Shows what each word of the sentence sees: a row per word, with a bar over time that is darker where the word fits better.
import { clock, make } from "./api.js";
import { svg } from "./curves.js";

const BARS = 120; // in a row, at most

// The highest of neighbouring values, so that a long video has no more than BARS bars.
const highest = (values, count) => Array.from({ length: count }, (_, i) => {
  const first = Math.floor((i * values.length) / count), last = Math.max(first + 1, Math.floor(((i + 1) * values.length) / count));
  return values.slice(first, last).reduce((a, b) => Math.max(a, b));
});

export function drawWords(container, { spans, words }, seek) {
  const count = Math.min(BARS, spans.length), end = spans.at(-1)[1];
  const rows = words.map(({ word, explained, evidence }) => {
    const low = evidence.reduce((a, b) => Math.min(a, b)), high = evidence.reduce((a, b) => Math.max(a, b), low + 1e-6);
    const best = spans[evidence.indexOf(evidence.reduce((a, b) => Math.max(a, b)))][0];
    const picture = svg("svg", { viewBox: `0 0 ${count} 1`, preserveAspectRatio: "none", "aria-hidden": "true" });
    highest(evidence, count).forEach((value, i) => picture.append(svg("rect", { x: i, y: 0, width: 1.02, height: 1, opacity: (0.06 + 0.94 * ((value - low) / (high - low)) ** 2).toFixed(2) })));
    picture.addEventListener("click", (event) => { const box = picture.getBoundingClientRect(); seek(((event.clientX - box.left) / box.width) * end); });
    const go = make("button", { type: "button", class: "plain small", "aria-label": `Go to where “${word}” fits best, ${clock(best)}`, onclick: () => seek(best) }, clock(best));
    return make("li", {}, make("span", {}, word), picture, make("b", { title: "How well this word matches there, by the model; 1 at best" }, explained.toFixed(2)), go);
  });
  container.replaceChildren(make("span", {}, "Which times the model matches each word of yours with. It learned from whole sentences. In a synthetic test, words for actions and things were right about six times in ten, other words seldom; with real videos nobody has counted. Do not rely on a single word."), make("ul", {}, ...rows));
}
