// SPDX-License-Identifier: MIT
//
// What was stopped: the last hundred, with their post-mortems.
"use strict";
const posts = new Map(); // by id, what is in the list
let found = []; // as the server has it, the newest first
let known = null, asking = false, next = 0;

function kindOf(post) {
  const kind = KINDS.map(([name]) => name).find((name) => post.reason.toLowerCase().startsWith(name.slice(0, 6)));
  return kind || "other";
}
function foundText(post) {
  const kind = kindOf(post);
  const words = kind === "memory" || kind === "allocation" ? bytesOf(post.used, post.limit) :
    kind === "deadline" && post.limit ? spanOf(post.used, post.limit) : "";
  const answer = "Query " + post.id + " of " + post.tenant + ", answered with " + post.status;
  return answer + (words ? "; " + words : "") + ".";
}
function postOf(post) {
  const item = made("li"), details = made("details"), summary = made("summary"), kind = kindOf(post);
  const time = made("time", "", new Date(post.time).toLocaleTimeString("en-GB"));
  time.dateTime = new Date(post.time).toISOString();
  summary.append(time, made("span", "why " + kind, NAME[kind] || post.reason), made("span", "tenant", post.tenant),
    made("code", "sql", post.statement.replace(/\s+/g, " ").slice(0, 300)));
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) {
      const inner = made("div", "post"), report = made("pre", "", post.report || "There is no report.");
      report.tabIndex = 0;
      report.setAttribute("role", "region");
      report.setAttribute("aria-label", "Post-mortem of query " + post.id);
      inner.append(made("p", "quiet", foundText(post)), made("pre", "sql", post.statement), report);
      details.append(inner);
    }
    if (!details.open) listed();
  });
  item.append(details);
  return { item, details };
}

// While somebody reads, nothing moves: what is new waits behind a button.
function reading() {
  const list = $("stopped");
  return list.contains(document.activeElement) || list.querySelector("details[open]") !== null;
}
function listed(shown) {
  const fresh = found.filter((post) => !posts.has(post.id + "@" + post.time));
  const held = fresh.length > 0 && posts.size > 0 && !shown && reading();
  $("newer").hidden = !held;
  text($("newer"), held ? "Show " + fresh.length + " newer" : "");
  if (held) return;
  const now = new Set(found.map((post) => post.id + "@" + post.time));
  for (const [id, { item, details }] of [...posts]) {
    if (now.has(id) || details.open) continue;
    if (item.contains(document.activeElement)) $("h-stopped").focus({ preventScroll: true });
    item.remove();
    posts.delete(id);
  }
  for (const post of fresh.reverse()) { // from the oldest
    const made = postOf(post);
    posts.set(post.id + "@" + post.time, made);
    $("stopped").prepend(made.item);
  }
  $("no-stopped").hidden = posts.size > 0;
  text($("c-stopped"), posts.size ? whole.format(posts.size) : "");
}
$("newer").addEventListener("click", () => {
  const newest = found[0];
  listed(true);
  const made = newest && posts.get(newest.id + "@" + newest.time);
  if (made) made.details.firstChild.focus();
});
$("stopped").addEventListener("focusout", () => setTimeout(listed, 0));

// Asked for when there are more, not too often, and ever more seldom where it takes the server long.
async function stopped(count) {
  const now = performance.now();
  if (count === known || asking || now < next || document.hidden) return;
  asking = true;
  try {
    const response = await fetch(address("/debug/stopped"));
    if (response.ok) {
      found = (await response.json()).sort((a, b) => new Date(b.time) - new Date(a.time));
      known = count;
      listed();
    }
  } catch { /* the next event asks again */ }
  next = performance.now() + Math.max(1000, 5 * (performance.now() - now));
  asking = false;
}
