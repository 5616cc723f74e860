// What the page shows is written in its address, so that every state can be shared, reloaded and left with "back".
// A picture that is searched with stands behind the #, which browsers do not send to the server.
const START = {
  q: "", like: "", folder: "", tag: "", group: "video", sure: "0", longer: "", shorter: "", after: "", before: "",
  trace: "1", sort: "newest", failed: "", video: "", t: "",
};
const OF_THE_PLAYER = ["video", "t"];
let listener = () => {};

export const state = read();

function read() {
  const given = new URLSearchParams(location.search), found = {};
  for (const [name, usual] of Object.entries(START)) found[name] = given.get(name) ?? usual;
  found.picture = new URLSearchParams(location.hash.slice(1)).get("picture") ?? "";
  return found;
}

// The address of a state; without a state, of the one that is shown.
export function addressOf(shown = state) {
  const written = new URLSearchParams();
  for (const [name, usual] of Object.entries(START)) if (shown[name] !== usual) written.set(name, shown[name]);
  const query = String(written);
  return `/${query ? "?" + query : ""}${shown.picture ? "#" + new URLSearchParams({ picture: shown.picture }) : ""}`;
}

// Equal for two states that show the same list of videos or hits.
export const listOf = (shown) => JSON.stringify({ ...shown, ...Object.fromEntries(OF_THE_PLAYER.map((name) => [name, ""])) });

export const isSearch = (shown = state) => Boolean(shown.q || shown.like || shown.picture);

// Show another state. `replace`: without an entry in the history of the browser.
export function go(changes, { replace = false } = {}) {
  const before = { ...state };
  Object.assign(state, changes);
  if (addressOf() === addressOf(before)) return listener(before, false);
  history[replace ? "replaceState" : "pushState"](null, "", addressOf());
  return listener(before, false);
}

// Note where the player is, without showing anything anew.
export function noteTime(seconds) {
  if (!state.video) return;
  state.t = String(Math.round(seconds * 10) / 10);
  history.replaceState(null, "", addressOf());
}

export function onAddress(show) {
  listener = show;
  addEventListener("popstate", () => {
    const before = { ...state };
    Object.assign(state, read());
    show(before, true);
  });
}

export function openFilters() {
  return ["group", "sure", "longer", "shorter", "after", "before"].some((name) => state[name] !== START[name]);
}
