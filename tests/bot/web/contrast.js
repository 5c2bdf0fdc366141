// Texts whose contrast to what is behind them is below 4.5 : 1 (WCAG 2.2, success criterion 1.4.3).
(() => {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => rgb.slice(0, 3).reduce((sum, c, i) => sum + linear(c / 255) * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!c.startsWith('rgb')) return null;
      const [r, g, b, a = 1] = channels(c);
      if (a === 1) return [r, g, b];
    }
    return null;
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest('script, noscript, svg, .sr, .skip, :disabled') || !e.checkVisibility()) continue;
    const back = behind(e), color = channels(getComputedStyle(e).color);
    if (!back || color.length > 3 && color[3] < 1) continue;
    const [a, b] = [light(color), light(back)];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${e.className || e.tagName}: ${walk.currentNode.data.trim().slice(0, 40)}`);
  }
  return [...new Set(bad)].slice(0, 10);
})()
