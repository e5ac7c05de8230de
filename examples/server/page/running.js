// SPDX-License-Identifier: MIT
//
// What runs: a row for each task, which is kept and updated as long as that runs.
"use strict";
const rows = new Map(); // by id

function bar(name) {
  const node = made("div", "bar"), meter = made("div", "meter"), fill = made("i"), figure = made("span", "figure");
  meter.setAttribute("role", "meter");
  meter.setAttribute("aria-label", name);
  meter.setAttribute("aria-valuemin", "0");
  meter.append(fill);
  figure.setAttribute("aria-hidden", "true");
  const title = made("span", "name", name);
  title.setAttribute("aria-hidden", "true");
  node.append(title, meter, figure);
  return { node, set(used, limit, words) {
    const part = limit ? Math.min(used / limit, 1) : 0;
    text(figure, words);
    attribute(meter, "aria-valuemax", limit || Math.max(used, 1));
    attribute(meter, "aria-valuenow", limit ? Math.min(used, limit) : used);
    attribute(meter, "aria-valuetext", words);
    meter.classList.toggle("near", part >= .9);
    fill.style.width = part * 100 + "%";
  } };
}

function rowOf(task) {
  const node = made("li", "task"), says = made("div", "says"), who = made("p", "who"), bars = made("div", "bars");
  const sql = made("pre", "sql", task.statement), stop = made("button", "stop", "Cancel");
  const more = made("button", "more", "+10 s"), hands = made("div", "hands");
  const note = made("span", "quiet");
  const row = { node, sql, stop, more, note, held: bar("held"), allocated: bar("allocated"), age: bar("age"), leaves: 0 };
  node.dataset.id = task.id;
  who.append(made("b", "", task.tenant), made("span", "quiet", "no. " + task.id), note);
  says.append(who, sql);
  bars.append(row.held.node, row.allocated.node, row.age.node);
  stop.type = "button";
  stop.setAttribute("aria-label", "Cancel query " + task.id + " of " + task.tenant);
  stop.addEventListener("click", () => cancel(task.id, row));
  more.type = "button";
  more.setAttribute("aria-label", "Give query " + task.id + " of " + task.tenant + " ten more seconds");
  more.addEventListener("click", () => extend(task.id, row));
  hands.append(more, stop);
  node.append(says, bars, hands);
  return row;
}

function dead(row, words) {
  text(row.note, words);
  attribute(row.stop, "aria-disabled", "true");
  attribute(row.more, "aria-disabled", "true");
}

async function cancel(id, row) {
  if (row.stop.hasAttribute("aria-disabled")) return;
  dead(row, "cancelling");
  let answer = "The server could not be reached.";
  try {
    const response = await fetch(address("/cancel/" + encodeURIComponent(id)), { method: "POST" });
    if (response.ok) {
      row.asked = true;
      return say("Query " + id + " is being cancelled.");
    }
    answer = response.status === 404 ? "It had ended already." : "The server said " + response.status + ".";
    if (response.status === 404) row.asked = true;
  } catch { /* as above */ }
  if (!row.asked) for (const button of [row.stop, row.more]) button.removeAttribute("aria-disabled");
  text(row.note, answer);
  say("Query " + id + ": " + answer);
}

async function extend(id, row) {
  if (row.more.hasAttribute("aria-disabled")) return;
  let answer = "The server could not be reached.";
  try {
    const response = await fetch(address("/extend/" + encodeURIComponent(id)), { method: "POST" });
    answer = response.ok ? "It has ten more seconds." : response.status === 404 ? "It had ended already."
      : response.status === 409 ? "It has been stopped, or has no limit of time."
      : "The server said " + response.status + ".";
  } catch { /* as above */ }
  text(row.note, answer);
  say("Query " + id + ": " + answer);
}

// A row whose task has ended goes at once, unless somebody has it in hand: their focus must not fall on another one's
// button, nor into nothing.
function ended(id, row, now) {
  if (!row.leaves) {
    if (!row.asked && !row.node.contains(document.activeElement)) return remove(id, row);
    row.leaves = now + LINGER_MS;
    row.node.classList.add("over");
    dead(row, row.asked ? "cancelled" : "ended");
  }
  if (now >= row.leaves) remove(id, row);
}
function remove(id, row) {
  if (row.node.contains(document.activeElement)) $("h-running").focus({ preventScroll: true });
  row.node.remove();
  rows.delete(id);
}

function running(state) {
  const now = performance.now(), there = new Set();
  let listed = 0;
  for (const task of state.running) {
    let row = rows.get(task.id);
    if (!row && task.age_ms < BRIEF_MS) continue;
    if (!row) {
      rows.set(task.id, row = rowOf(task));
      $("running").append(row.node);
      // What can be scrolled has to be reached by keyboard.
      if (row.sql.scrollHeight > row.sql.clientHeight + 1) row.sql.tabIndex = 0;
    }
    listed++;
    there.add(task.id);
    row.held.set(task.held, task.held_limit, bytesOf(task.held, task.held_limit));
    row.allocated.set(task.allocated, task.allocated_limit, bytesOf(task.allocated, task.allocated_limit));
    row.age.set(task.age_ms, task.timeout_ms, spanOf(task.age_ms, task.timeout_ms));
  }
  for (const [id, row] of [...rows]) if (!there.has(id)) ended(id, row, now);
  const brief = state.running.length - listed;
  text($("c-running"), whole.format(state.running.length));
  text($("brief"), brief === 0 ? "" : "and " + brief + (brief === 1 ? " that has" : " that have") + " just begun");
  $("no-running").hidden = rows.size > 0;
}
