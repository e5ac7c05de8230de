// SPDX-License-Identifier: MIT
//
// The events, each of which is given to all the others; and what is said when there are none.
"use strict";
let source = null, heard = 0, tries = 0;

function link(is, words) {
  attribute($("link"), "data-is", is);
  text($("link"), words);
}
function shown(state) {
  heard = performance.now();
  tries = 0;
  link("live", "Live");
  plotted(state);
  text($("n-rate"), newest() ? rate(newest().ok) : "–");
  numbers("n-running", state.running.length, state.workers + (state.workers === 1 ? " worker" : " workers"));
  numbers("n-waiting", state.waiting, whole.format(state.queue));
  text($("n-stopped"), whole.format(state.stopped));
  running(state);
  stopped(state.stopped);
  if (!document.hidden) draw();
  legends();
}
function numbers(id, n, of) {
  const node = $(id);
  if (!node.firstElementChild) node.replaceChildren(document.createTextNode(""), made("small"));
  if (node.firstChild.data !== whole.format(n)) node.firstChild.data = whole.format(n);
  text(node.lastChild, " of " + of);
}
// The browser connects again by itself where the connection broke, but not where the server answered otherwise.
function connect() {
  source = new EventSource(address("/events"));
  source.addEventListener("state", (event) => shown(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    link("lost", "Connection lost, trying again");
    if (source.readyState !== EventSource.CLOSED) return;
    tries++;
    setTimeout(connect, Math.min(1000 * 2 ** tries, 15000));
  });
}
setInterval(() => {
  const silent = performance.now() - heard;
  if (heard && silent > SILENCE_MS && source.readyState === EventSource.OPEN) link("lost", "No news for some seconds");
}, 1000);
document.addEventListener("visibilitychange", () => {
  if (document.hidden || !last) return;
  draw();
  stopped(last.stopped);
});
connect();
