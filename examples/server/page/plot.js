// SPDX-License-Identifier: MIT
//
// Outcomes a second over two minutes: plotted(state) takes an event, draw() and legends() show it.
"use strict";
const canvas = $("plot");
let points = []; // {time, rates}
let last = null; // the state before
let states = []; // some before that
let looked = null; // the time that is looked at instead of now

const legend = {};
for (const [kind, name] of KINDS) {
  const item = made("li", kind);
  item.append(made("span", "", name), legend[kind] = made("span", "rate", "–"));
  $("legend").append(item);
}

// Over the last second, not the last event: of rare outcomes half a second shows nothing but spikes.
function plotted(state) {
  const other = last && KINDS.some(([kind]) => state.outcomes[kind] < last.outcomes[kind]); // server: it began anew
  if (other) [points, states, last] = [[], [], null];
  const gap = last && state.time - last.time > GAP_MS;
  if (gap) states = [];
  const base = states.find((old) => old.time > state.time - 1250) || last;
  if (base && state.time > base.time) {
    const rates = {}, seconds = (state.time - base.time) / 1000;
    for (const [kind] of KINDS) rates[kind] = (state.outcomes[kind] - base.outcomes[kind]) / seconds;
    points.push({ time: state.time, gap, rates });
    while (points[0].time < state.time - KEPT_MS - 2000) points.shift();
  }
  last = state;
  states = [...states.slice(-9), { time: state.time, outcomes: state.outcomes }];
}
function newest() {
  return points.length ? points[points.length - 1].rates : null;
}

function topOf(most) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((n) => n * unit).find((n) => n >= most * 1.05) || 10 * unit;
}

// Ok above, with a scale of its own: beside thousands of those, the few that were stopped would not be seen.
function draw() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  const box = canvas.getBoundingClientRect(), density = window.devicePixelRatio || 1;
  if (box.width === 0) return;
  const width = Math.round(box.width * density), height = Math.round(box.height * density);
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const c = canvas.getContext("2d");
  c.setTransform(density, 0, 0, density, 0, 0);
  c.clearRect(0, 0, box.width, box.height);
  c.font = "12px " + getComputedStyle(document.body).fontFamily;
  const left = 18, right = box.width - 56, bottom = box.height - 22, middle = Math.round(bottom * .56);
  const now = last ? last.time : Date.now();
  const x = (time) => right - (now - time) / KEPT_MS * (right - left);
  const seen = points.filter((p) => p.time >= now - KEPT_MS - 1000);

  function panel(kinds, top, floor) {
    const most = topOf(Math.max(0, ...seen.map((p) => kinds.reduce((sum, kind) => sum + p.rates[kind], 0))));
    const y = (value) => floor - value / most * (floor - top);
    c.strokeStyle = colour("line");
    c.fillStyle = colour("quiet");
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.lineWidth = 1;
    for (const value of [0, most / 2, most]) {
      const at = Math.round(y(value)) + .5;
      c.beginPath(); c.moveTo(left, at); c.lineTo(right, at); c.stroke();
      if (value !== most / 2) c.fillText(whole.format(value), right + 8, Math.max(at, 7));
    }
    c.save();
    c.beginPath(); c.rect(left, 0, right - left, box.height); c.clip();
    const below = seen.map(() => 0);
    for (const kind of kinds) {
      for (let from = 0; from < seen.length;) {
        let to = from + 1;
        while (to < seen.length && !seen[to].gap) to++;
        c.beginPath();
        for (let i = from; i < to; i++) c.lineTo(x(seen[i].time), y(below[i] + seen[i].rates[kind]));
        for (let i = to - 1; i >= from; i--) c.lineTo(x(seen[i].time), y(below[i]));
        c.fillStyle = colour(kind);
        c.globalAlpha = kind === "ok" ? .22 : .9;
        c.fill();
        c.globalAlpha = 1;
        if (kind === "ok") {
          c.beginPath();
          for (let i = from; i < to; i++) c.lineTo(x(seen[i].time), y(seen[i].rates[kind]));
          c.strokeStyle = colour(kind); c.lineWidth = 1.75; c.lineJoin = "round"; c.stroke();
        }
        from = to;
      }
      seen.forEach((p, i) => { below[i] += p.rates[kind]; });
    }
    c.restore();
  }
  panel(["ok"], 10, middle - 12);
  panel(KINDS.slice(1).map(([kind]) => kind), middle + 12, bottom);

  c.fillStyle = colour("quiet");
  c.textBaseline = "alphabetic";
  const moments = [[KEPT_MS, "left", "2 min ago"], [KEPT_MS / 2, "center", "1 min ago"], [0, "right", "now"]];
  for (const [ago, align, label] of moments) {
    c.textAlign = align;
    c.fillText(label, x(now - ago), box.height - 5);
  }
  const point = pointAt(looked);
  if (point) {
    c.strokeStyle = colour("ink");
    c.lineWidth = 1;
    c.beginPath(); c.moveTo(x(point.time), 4); c.lineTo(x(point.time), bottom); c.stroke();
  }
  canvas.timeAt = (offset) => now - (right - offset) / (right - left) * KEPT_MS;
}

function pointAt(time) {
  if (time === null || points.length === 0) return null;
  return points.reduce((best, p) => Math.abs(p.time - time) < Math.abs(best.time - time) ? p : best);
}

function legends(moved) {
  const point = pointAt(looked), rates = point ? point.rates : newest();
  text($("when"), point ? span(last.time - point.time) + " ago" : "now");
  if (!rates) return;
  for (const [kind] of KINDS) text(legend[kind], rate(rates[kind]));
  if (!moved && document.activeElement === canvas) return; // or it would be read out twice a second
  const others = KINDS.slice(1).filter(([kind]) => rates[kind] > 0)
    .map(([kind, name]) => rate(rates[kind]) + " " + name.toLowerCase());
  attribute(canvas, "aria-valuenow", point ? Math.round((point.time - last.time) / 1000) : 0);
  attribute(canvas, "aria-valuetext", $("when").textContent + ": " + [rate(rates.ok) + " ok", ...others].join(", "));
}
function look(time) {
  looked = time;
  draw();
  legends(true);
}
canvas.addEventListener("pointermove", (event) => {
  if (canvas.timeAt) look(canvas.timeAt(event.clientX - canvas.getBoundingClientRect().left));
});
canvas.addEventListener("pointerleave", () => look(null));
canvas.addEventListener("blur", () => look(null));
canvas.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === "Escape") look(null);
  if (!step || points.length === 0) return;
  event.preventDefault();
  const at = looked === null ? points.length : points.indexOf(pointAt(looked));
  const next = at + step * (event.shiftKey ? 10 : 1);
  look(next >= points.length ? null : points[Math.max(next, 0)].time);
});
new ResizeObserver(draw).observe(canvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
