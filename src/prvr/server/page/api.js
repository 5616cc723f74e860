// Calls to the API, and small helpers for building the page.
// An error response: what went wrong (message) and what to do (remedy).
export class Problem extends Error {
  constructor(status, detail, remedy) { super(detail); this.status = status; this.remedy = remedy; }
}

export async function call(method, path, body, signal) {
  let response;
  try {
    response = await fetch(path, {
      method, signal, credentials: "same-origin",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer.", "Check that `prvr serve` is running, then try again.");
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  throw await problemOf(response);
}

// What a response that is not ok says.
export async function problemOf(response) {
  const problem = await response.json().catch(() => ({}));
  return new Problem(response.status, problem.detail || `The server answered with status ${response.status}.`, problem.remedy || "Try again.");
}

// The nodes of a name, in which a line may break after each slash.
export const breakable = (name) => name.split("/").flatMap((part, i, all) => (i < all.length - 1 ? [`${part}/`, document.createElement("wbr")] : [part]));
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
export const sayProblem = (problem) => `${problem.message} ${problem.remedy || ""}`.trim();
export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

// 75 → 1:15; with tenths: 1:15.0
export const clock = (seconds, fine = false) => {
  const tenths = Math.max(0, Math.round(seconds * 10)), whole = fine ? Math.floor(tenths / 10) : Math.round(Math.max(0, seconds));
  const two = (n) => String(n).padStart(2, "0");
  const h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60, s = whole % 60;
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}${fine ? "." + (tenths % 10) : ""}`;
};

// An element with attributes (a name like onclick adds a listener) and children; null children are left out.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);
