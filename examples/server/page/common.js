// SPDX-License-Identifier: MIT
//
// What all parts of the page use: elements, words, and sizes as people read them.
"use strict";
const KINDS = [["ok", "Ok"], ["failed", "Bad SQL"], ["memory", "Memory limit"], ["allocation", "Allocation limit"],
  ["deadline", "Deadline"], ["cancelled", "Cancelled"], ["refused", "Refused"]];
const NAME = Object.fromEntries(KINDS);
const KEPT_MS = 120000; // of the plot
const BRIEF_MS = 200; // what is younger than that is counted and not listed: it will be gone before it is read
const LINGER_MS = 4000; // of a row that has ended under somebody's hands
const GAP_MS = 3000; // between two events, and the plot has a gap
const SILENCE_MS = 5000; // so long without an event, and the figures are called old
const key = new URLSearchParams(location.search).get("key");
const address = (path) => key === null ? path : path + "?key=" + encodeURIComponent(key);
const $ = (id) => document.getElementById(id);

function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}
function attribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}
function made(name, className, content) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
}

const whole = new Intl.NumberFormat("en");
function rate(n) {
  return n >= 10 || n === 0 ? whole.format(Math.round(n)) : n.toFixed(1);
}
function amount(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; bytes >= 999.5 && i < units.length - 1; i++) bytes /= 1024;
  const short = i === 0 || bytes >= 100 ? Math.round(bytes).toString() : bytes.toFixed(bytes < 10 ? 2 : 1);
  return [short.includes(".") ? short.replace(/\.?0+$/, "") : short, units[i]];
}
function bytesOf(used, limit) {
  const [n, unit] = amount(used);
  if (!limit) return n + " " + unit;
  const [m, limitUnit] = amount(limit);
  return (unit === limitUnit || used === 0 ? n : n + " " + unit) + " of " + m + " " + limitUnit;
}
function span(ms) {
  if (ms < 9950) return (ms / 1000).toFixed(1) + " s";
  if (ms < 120000) return Math.round(ms / 1000) + " s";
  return Math.floor(ms / 60000) + " min " + Math.round(ms / 1000) % 60 + " s";
}
function spanOf(used, limit) {
  return limit ? span(used).replace(/ s$/, "") + " of " + span(limit) : span(used);
}

// Said aloud: only what somebody did, or what has to be known.
let hush = 0;
function say(sentence) {
  $("said").textContent = sentence;
  clearTimeout(hush);
  hush = setTimeout(() => { $("said").textContent = ""; }, 6000);
}
