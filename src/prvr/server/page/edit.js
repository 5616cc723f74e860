// Change what the library says about a video: attach tags, take them off, remove the video.
import { byId, call, make, sayProblem } from "./api.js";

let changed = () => {}, removed = () => {}, writable = false, current = null;

export function setUpEditing(whenChanged, whenRemoved) {
  changed = whenChanged; removed = whenRemoved;
  byId("tag-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const tag = byId("new-tag").value.trim();
    if (tag) edit({ add_tags: [tag] }).then(() => { byId("new-tag").value = ""; byId("new-tag").focus(); });
  });
  byId("remove").addEventListener("click", () => confirmRemoval(current));
  byId("confirm-no").addEventListener("click", () => byId("confirm").close());
}

export function allowEditing(allowed, tags) {
  writable = allowed;
  byId("known-tags").replaceChildren(...tags.slice(0, 200).map((tag) => make("option", { value: tag })));
  if (current) showDetails(current);
}

const size = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.max(1, Math.round(bytes / 1e3))} kB`);

// Facts, tags and what can be done with the video in the player.
export function showDetails(video) {
  current = video;
  const facts = [video.width && video.height ? `${video.width} × ${video.height}` : null, video.fps ? `${Math.round(video.fps * 100) / 100} pictures a second` : null, size(video.size), `changed ${new Date(video.date).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })}`];
  byId("details-facts").textContent = [video.name, ...facts].filter(Boolean).join(" · ");
  byId("tag-list").replaceChildren(...video.tags.map((tag) => make("span", { class: "tag" }, `#${tag}`, writable ? make("button", { type: "button", class: "bare", "aria-label": `Take off the tag ${tag}`, onclick: () => edit({ remove_tags: [tag] }) }, "✕") : null)));
  byId("tag-list").hidden = !video.tags.length;
  byId("tag-form").hidden = byId("remove").hidden = !writable;
}

async function edit(change) {
  const video = current;
  byId("edit-problem").textContent = "";
  try {
    const found = await call("PATCH", `/v1/videos/${video.id}`, change);
    if (current?.id === found.id) showDetails(found);
    changed(found);
  } catch (problem) { byId("edit-problem").textContent = sayProblem(problem); }
}

export function confirmRemoval(video) {
  byId("confirm-text").textContent = `“${video.name}” is removed from the library. The file itself stays where it is, and can be added again.`;
  byId("confirm-problem").textContent = "";
  byId("confirm-yes").onclick = async () => {
    byId("confirm-yes").disabled = true;
    try {
      await call("DELETE", `/v1/videos/${video.id}`);
      byId("confirm").close();
      removed(video);
    } catch (problem) { byId("confirm-problem").textContent = sayProblem(problem); }
    byId("confirm-yes").disabled = false;
  };
  byId("confirm").showModal();
  byId("confirm-no").focus();
}
