// Runs in the page. Returns the number of texts it checked, and the texts and edges with too little contrast.
() => {
  const parse = (text) => { const [r, g, b, a = 1] = text.match(/[0-9.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, back) => top.slice(0, 3).map((value, i) => value * top[3] + back[i] * (1 - top[3]));
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.unshift(parse(getComputedStyle(at).backgroundColor));
    return layers.reduce((back, layer) => over(layer, back), [255, 255, 255]);
  };
  const light = (colour) => colour.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (one, other) => { const [a, b] = [light(one), light(other)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  const poor = [];
  let checked = 0;
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || element.disabled) continue;
    const style = getComputedStyle(element), svg = element.closest("svg");
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) || element.matches("input:not([type=checkbox]), select");
    if (own && !element.matches("option, .hidden, .skip")) {
      checked += 1;
      const colour = svg ? style.fill : style.color, size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const contrast = ratio(over(parse(colour), ground(element)), ground(element));
      if (contrast < (large ? 3 : 4.5)) poor.push(`${element.tagName}#${element.id}.${element.className.baseVal ?? element.className} ${contrast.toFixed(2)}`);
    }
    if (element.matches("input:not([type=checkbox]), select, button.plain, .chip")) {
      const edge = ratio(parse(style.borderTopColor).slice(0, 3), ground(element.parentElement));
      const fill = ratio(ground(element), ground(element.parentElement));
      if (Math.max(edge, fill) < 3) poor.push(`edge of ${element.tagName}#${element.id} ${edge.toFixed(2)}`);
    }
  }
  return [checked, poor];
}
