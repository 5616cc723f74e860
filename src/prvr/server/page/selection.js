// Moments that somebody picks, and the bar that takes them away: as clips, one film, a table or an edit list.
import { byId, clock, count, make, Problem, problemOf, sayProblem } from "./api.js";
import { state } from "./address.js";

const KEPT = "prvr-selection"; // for this tab, so that a reload loses nothing
const FORMATS = { clips: "clips.zip", film: "film.mp4", csv: "moments.csv", edl: "moments.edl", otio: "moments.otio" };
const picked = new Map(read());
const keyOf = ({ video, start, end }) => `${video}@${start}-${end}`;

function read() { try { return JSON.parse(sessionStorage.getItem(KEPT)) ?? []; } catch { return []; } }

export function setUpSelection() {
  byId("picked-clear").addEventListener("click", () => { picked.clear(); changed(); byId("query").focus(); });
  byId("picked-get").addEventListener("click", take);
  changed();
}

// A checkbox that picks a moment: { video, start, end, name }.
export function pick(moment, text) {
  const box = make("input", { type: "checkbox", "data-pick": keyOf(moment), onchange: () => setPicked(moment, box.checked) });
  box.checked = picked.has(keyOf(moment));
  return make("label", { class: "pick", title: "Pick this moment, to export it" }, box, make("span", {}, text), make("span", { class: "hidden" }, ` ${moment.name}, ${clock(moment.start)} – ${clock(moment.end)}`));
}

function setPicked(moment, on) {
  if (on) picked.set(keyOf(moment), { ...moment, label: state.q || null }); else picked.delete(keyOf(moment));
  changed();
}

// Leave out the moments of a video that was removed.
export function dropPicks(video) {
  for (const [key, moment] of picked) if (moment.video === video.id) picked.delete(key);
  changed();
}

function changed() {
  try { sessionStorage.setItem(KEPT, JSON.stringify([...picked])); } catch { /* it is full or forbidden: then a reload forgets */ }
  for (const box of document.querySelectorAll("[data-pick]")) box.checked = picked.has(box.dataset.pick);
  const seconds = [...picked.values()].reduce((sum, moment) => sum + moment.end - moment.start, 0);
  byId("picked").hidden = !picked.size;
  document.body.classList.toggle("picking", picked.size > 0);
  byId("picked-text").textContent = `${count(picked.size, "moment")} picked, ${clock(seconds)}`;
  byId("picked-list").replaceChildren(...[...picked].map(([key, moment]) => make("li", {}, `${moment.name}, ${clock(moment.start)} – ${clock(moment.end)} `,
    make("button", { type: "button", class: "plain small", "aria-label": `Leave out ${moment.name} at ${clock(moment.start)}`, onclick: () => { picked.delete(key); changed(); } }, "✕"))));
}

async function take() {
  const format = byId("picked-format").value, say = (text, bad) => { byId("picked-status").textContent = text; byId("picked-status").classList.toggle("bad", Boolean(bad)); };
  byId("picked-get").disabled = true;
  say(format === "clips" || format === "film" ? "Cutting …" : "Writing …");
  try {
    const moments = [...picked.values()].map(({ video, start, end, label }) => ({ video, start, end, ...(label ? { label } : {}) }));
    const response = await fetch("/v1/export", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ moments, format }) })
      .catch(() => { throw new Problem(0, "The server does not answer.", "Check that `prvr serve` is running, then try again."); });
    if (!response.ok) throw await problemOf(response);
    const address = URL.createObjectURL(await response.blob());
    const named = /filename="?([^";]+)/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
    make("a", { href: address, download: named ?? FORMATS[format] }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    say("Saved to your downloads.");
  } catch (problem) { say(sayProblem(problem), true); }
  byId("picked-get").disabled = false;
}
