"use strict";
// Draws each figure when its part of the page is first open, in the colours of the style sheet.
(() => {
  const PAPER_WIDTH = 660; // pixels between the margins of a sheet
  const PAPER_HEIGHT = 0.62; // of the height on a screen, so that a part fills few sheets
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  const figures = new Map(); // plot -> its figure, once drawn
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const print = matchMedia("print");
  const touch = matchMedia("(pointer: coarse)");
  const config = {
    displaylogo: false,
    responsive: true,
    displayModeBar: touch.matches ? false : "hover",
    modeBarButtons: [["toImage", "resetScale2d"]],
    plotlyServerURL: "",
    typesetMath: false, // names are names, dollar signs or not
  };

  // Only values of colour keys are looked up: names come from outside and stay as they are.
  function coloured(value, key, style) {
    if (Array.isArray(value)) return value.map((item) => coloured(item, key, style));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, k, style)]));
    }
    const isColour = typeof value === "string" && value.startsWith("--") && /color(scale)?$/.test(key);
    return isColour ? style.getPropertyValue(value).trim() : value;
  }

  function layoutOf(plot, own, style) {
    const ink = style.getPropertyValue("--ink").trim();
    const line = style.getPropertyValue("--line").trim();
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: ink, zerolinewidth: 1, fixedrange: touch.matches };
    const paper = root.classList.contains("paper");
    const height = parseFloat(plot.style.getPropertyValue("--height"));
    return {
      ...own,
      xaxis: { ...axis, ...own.xaxis, zeroline: own.xaxis.zeroline ?? false },
      yaxis: { ...axis, ...own.yaxis, zeroline: own.yaxis.zeroline ?? false },
      ...(paper ? { width: PAPER_WIDTH, height: PAPER_HEIGHT * height, autosize: false } : { height, autosize: true }),
      font: { family: getComputedStyle(document.body).fontFamily, size: paper ? 10 : 12, color: ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 10, r: 14, t: 14, b: 10, ...own.margin },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", ...own.legend },
      hoverlabel: {
        bgcolor: style.getPropertyValue("--raised").trim(),
        bordercolor: line,
        font: { color: ink },
        namelength: -1,
      },
      dragmode: touch.matches ? false : "zoom", // a finger on a figure scrolls the page
    };
  }

  function draw(plot) {
    const figure = figures.get(plot) ?? JSON.parse(document.getElementById(`${plot.id}-data`).textContent);
    figures.set(plot, figure);
    const style = getComputedStyle(root);
    const data = coloured(figure.data, "", style);
    const layout = layoutOf(plot, coloured(figure.layout, "", style), style);
    Plotly.newPlot(plot, data, layout, config); // drawn anew: margins kept from another width would not fit
  }

  const isVisible = (plot) => plot.closest("details")?.open ?? true;
  const drawOpen = () => plots.filter((plot) => isVisible(plot) && !figures.has(plot)).forEach(draw);
  const drawAgain = () => [...figures.keys()].forEach(draw);

  let opened = []; // parts that were closed before printing
  function toPaper() {
    if (root.classList.contains("paper")) return;
    root.classList.add("paper");
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((part) => (part.open = true));
    drawAgain();
    drawOpen();
  }
  function toScreen() {
    if (!root.classList.contains("paper")) return;
    root.classList.remove("paper");
    opened.forEach((part) => (part.open = false));
    drawAgain();
  }

  document.querySelectorAll("details").forEach((part) => part.addEventListener("toggle", drawOpen));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    const part = link && document.getElementById(link.getAttribute("href").slice(1));
    if (part instanceof HTMLDetailsElement) part.open = true;
  });
  dark.addEventListener("change", drawAgain);
  addEventListener("beforeprint", toPaper);
  addEventListener("afterprint", toScreen);
  print.addEventListener("change", () => (print.matches ? toPaper() : toScreen()));
  drawOpen();
})();
