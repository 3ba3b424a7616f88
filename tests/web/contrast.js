// Every text of the page whose contrast with what is behind it is below WCAG's AA (4.5, or 3 for large text).
() => {
  const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const parsed = (color) => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = parsed(getComputedStyle(each).backgroundColor);
      if (color[3] === 1) return color;
    }
    return parsed(getComputedStyle(document.documentElement).getPropertyValue("background-color"));
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.nodeValue.trim();
    const element = texts.currentNode.parentElement;
    if (!text || !element.checkVisibility({ visibilityProperty: true }) || element.closest("svg, :disabled, script")) continue;
    const style = getComputedStyle(element);
    const [one, other] = [luminance(parsed(style.color)), luminance(ground(element))].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < (large ? 3 : 4.5)) found.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
    if (size < 11.9) found.push(`${text.slice(0, 40)}: ${size} px`);
  }
  return found;
}
