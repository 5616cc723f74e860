// A picture as the query: dropped on the page, pasted, or chosen. It is made small here, so that it fits into an address.
import { byId } from "./api.js";

const SIDE = 256; // pixels; encoders look at about as many
const QUALITY = 0.8;

// Calls `use` with the picture as the base64 of a JPEG, and `fail` with a sentence.
export function setUpPictures(use, fail) {
  const take = async (file) => { try { use(await shrink(file)); } catch { fail("This file is not a picture that your browser can read. Use a JPEG, PNG or WebP."); } };
  const images = (files) => [...(files ?? [])].filter((file) => file.type.startsWith("image/"));
  const busy = () => document.querySelector("dialog[open]");
  byId("choose-picture").addEventListener("click", () => byId("picture-file").click());
  byId("picture-file").addEventListener("change", (event) => { const [file] = event.target.files; event.target.value = ""; if (file) take(file); });
  addEventListener("paste", (event) => { const [file] = images(event.clipboardData?.files); if (file && !busy()) { event.preventDefault(); take(file); } });
  let inside = 0; // dragenter and dragleave come for every element on the way
  const dragging = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files") && !busy();
  const showDrop = (on) => { byId("drop").hidden = !on; };
  addEventListener("dragenter", (event) => { if (dragging(event)) { inside++; showDrop(true); } });
  addEventListener("dragleave", (event) => { if (dragging(event) && --inside <= 0) { inside = 0; showDrop(false); } });
  addEventListener("dragover", (event) => { if (dragging(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!dragging(event)) return;
    event.preventDefault(); inside = 0; showDrop(false);
    const [file] = images(event.dataTransfer.files);
    if (file) take(file); else fail("Drop a picture: a JPEG, PNG or WebP.");
  });
}

async function shrink(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale)); canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff"; context.fillRect(0, 0, canvas.width, canvas.height); // under what is transparent
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", QUALITY).split(",")[1];
}

// Draw a picture of the address into a canvas. The page's rules forbid images from elsewhere, even from itself.
export async function drawPicture(canvas, base64) {
  try {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
    canvas.width = bitmap.width; canvas.height = bitmap.height;
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
  } catch { canvas.width = canvas.height = 1; }
}
