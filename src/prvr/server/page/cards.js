// What lists of videos and of hits share: placeholders, pictures that come late, and arrow keys.
import { make } from "./api.js";

// Empty cards that take the place of those that are being loaded.
export const placeholders = (number) => Array.from({ length: number }, () => make("li", { class: "card placeholder", "aria-hidden": "true" }, make("span", { class: "blank" }), make("span", { class: "line" }), make("span", { class: "line short" })));

// The arrow keys go from card to card: left and right in order, up and down in the column.
export function moveBetweenCards(list, selector) {
  list.addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key) || !event.target.matches(selector)) return;
    const all = [...list.querySelectorAll(selector)].filter((each) => each.checkVisibility()), place = all.indexOf(event.target);
    const box = event.target.getBoundingClientRect();
    const column = (each) => { const other = each.getBoundingClientRect(); return Math.abs(other.left - box.left) < 4; };
    const next = { ArrowLeft: () => all[place - 1], ArrowRight: () => all[place + 1], ArrowUp: () => all.slice(0, place).reverse().find(column), ArrowDown: () => all.slice(place + 1).find(column) }[event.key]();
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
}

// A server that decodes many pictures may be busy: try again, twice, before the place stays empty.
export function retryPictures() {
  addEventListener("error", (event) => {
    const image = event.target;
    if (image?.tagName !== "IMG" || !image.src.includes("/thumbnail")) return;
    const tries = Number(image.dataset.tries ?? 0), address = image.src;
    image.classList.add("missing");
    if (tries >= 2) return;
    image.dataset.tries = tries + 1;
    setTimeout(() => { if (image.isConnected) { image.classList.remove("missing"); image.src = `${address.split("&try=")[0]}&try=${tries + 1}`; } }, 1500 * (tries + 1));
  }, true);
}
