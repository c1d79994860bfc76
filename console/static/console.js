// What pages do beyond links and forms: times in the reader's zone, a first page that stays
// up to date, and keys. Every page can be read without it.

const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const date = { year: "numeric", month: "short", day: "numeric" };

/** localTimes shows the times below an element in the reader's zone, those of today
 * without their date. */
export function localTimes(root, locale = undefined) {
  const today = new Date().toDateString();
  const short = new Intl.DateTimeFormat(locale, clock);
  const long = new Intl.DateTimeFormat(locale, { ...date, ...clock });
  for (const element of root.querySelectorAll("time")) {
    const at = new Date(element.dateTime);
    element.textContent = (at.toDateString() === today ? short : long).format(at);
    element.title = element.dateTime;
  }
  for (const element of root.querySelectorAll(".zone")) {
    element.textContent = new Intl.DateTimeFormat(locale, { timeZoneName: "short" }).formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;
  }
}

/** every is the time between two readings of a page that stays up to date, in milliseconds. */
const every = 10_000;

// The page comes from the gateway, whose templates escape all that was recorded.
const trusted = window.trustedTypes?.createPolicy("console", { createHTML: (text) => text }) ?? { createHTML: (text) => text };

/** refresh reads the page again and puts its live part in place of the shown one. */
async function refresh(live) {
  const answer = await fetch(location.href, { redirect: "manual" });
  if (answer.type === "opaqueredirect") location.reload(); // the session has ended
  if (!answer.ok) throw new Error(`the gateway answers ${answer.status}`);
  const page = new DOMParser().parseFromString(trusted.createHTML(await answer.text()), "text/html");
  const next = page.querySelector("[data-live]");
  if (!next) return live;
  localTimes(page);
  const open = [...live.querySelectorAll("details")].map((element) => element.open);
  next.querySelectorAll("details").forEach((element, i) => { element.open = open[i] ?? false; });
  const top = page.querySelector(".top .at");
  document.querySelector(".top .at").replaceWith(document.importNode(top, true));
  const shown = document.importNode(next, true);
  live.replaceWith(shown);
  stale(false);
  return shown;
}

/** stale says whether the shown figures are those of before. */
function stale(is) {
  document.body.classList.toggle("stale", is);
  document.querySelector(".offline").textContent = is ? "The gateway does not answer: these are its last figures." : "";
}

function follow(live) {
  setInterval(async () => {
    const inUse = live.contains(document.activeElement) || String(getSelection());
    if (document.visibilityState !== "visible" || inUse) return;
    live = await refresh(live).catch(() => { stale(true); return live; });
  }, every);
}

/** sayReading says that the next page is being read, if that takes longer, until the
 * visitor does something else. The query ends with the browser's request. */
function sayReading() {
  let wait, download;
  const say = (text) => {
    clearTimeout(wait);
    document.querySelector(".offline").textContent = text;
    document.body.classList.toggle("reading", text !== "");
  };
  addEventListener("submit", (event) => { download = event.submitter?.value === "patch"; });
  addEventListener("beforeunload", () => {
    if (!download) wait = setTimeout(say, 400, "Reading… Esc, or the browser's Stop, ends it.");
    download = false;
  });
  const over = () => { if (document.body.matches(".reading")) say(""); };
  for (const event of ["keydown", "pointerdown", "pageshow"]) addEventListener(event, over);
}

/** places are the pages that g and a letter open. */
const places = { n: "", t: "traces", r: "refused", d: "definitions", y: "try", p: "playground", c: "costs", l: "limits", m: "models" };

let before = "";

function key(event) {
  const review = document.querySelector("button[value=review]:enabled");
  if (event.key === "s" && (event.ctrlKey || event.metaKey) && review) {
    event.preventDefault();
    review.click();
    return;
  }
  const typing = event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
  if (typing) return;
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("find").focus();
  } else if (before === "g" && event.key in places) {
    location.href = "/console/" + places[event.key];
  }
  before = event.key;
}

localTimes(document);
sayReading();
document.addEventListener("keydown", key);
const live = document.querySelector("[data-live]");
if (live) follow(live);
if (document.querySelector("play-ground")) await import("./playground.js");
if (document.querySelector("textarea[data-words]")) await import("./words.js");
document.documentElement.dataset.ready = "";
