// Completion in the editor of a file: the names and values that the gateway offers for the
// word before the cursor.

/** shown is the most words in the list. */
const shown = 8;

/** wordsAt returns the words that go on with what a text ends with, and that end. */
export function wordsAt(words, text) {
  const line = text.slice(text.lastIndexOf("\n") + 1);
  if (/(^|\s)#/.test(line)) return { part: "", list: [] };
  const value = /(?:^|[\s{,-])"?([\w.]+)"?:\s+["']?([^\s"'{}[\],]*)$/.exec(line);
  const part = value ? value[2] : /[\w.]*$/.exec(line)[0];
  const all = value ? Object.hasOwn(words.values, value[1]) ? words.values[value[1]] : [] : Object.keys(words.keys).sort();
  return { part, isKey: !value, list: all.filter((word) => word.startsWith(part) && word !== part).slice(0, shown) };
}

const text = document.querySelector("textarea[data-words]");
const box = document.createElement("ul");
const said = document.createElement("p");
Object.assign(box, { id: "words", className: "words", role: "listbox", ariaLabel: "Words that fit here", hidden: true });
Object.assign(said, { className: "unseen", role: "status" });
text.after(box, said);
text.setAttribute("aria-autocomplete", "list");
text.setAttribute("aria-controls", "words");

let words; // of the gateway, once they are asked for
let found = { part: "", list: [] };
let chosen = -1; // the index in the list
let place; // of the cursor, where the words fit

function close() {
  box.hidden = true;
  chosen = -1;
  said.textContent = "";
  text.removeAttribute("aria-activedescendant");
}

/** open shows the words for the cursor's place; without a begun word only if it is asked. */
async function open(asked) {
  words ??= fetch("/console/api/words?file=" + encodeURIComponent(text.dataset.words)).then((answer) => answer.ok ? answer.json() : Promise.reject());
  const known = await words.catch(() => ({ keys: {}, values: {} }));
  close();
  found = wordsAt(known, text.value.slice(0, text.selectionStart));
  place = text.selectionStart;
  if (place !== text.selectionEnd || !found.list.length || !found.part && !asked) return;
  box.replaceChildren(...found.list.map((word, i) => {
    const item = document.createElement("li");
    Object.assign(item, { id: "word-" + i, role: "option", ariaSelected: "false" });
    const about = document.createElement("span");
    about.className = "note";
    about.textContent = found.isKey ? known.keys[word] : "";
    item.append(word, " ", about);
    item.onmousedown = (event) => { event.preventDefault(); take(i); };
    return item;
  }));
  box.hidden = false;
  said.textContent = found.list.length + (found.list.length === 1 ? " word fits" : " words fit") + ": arrow down chooses, Enter takes it";
}

function choose(next) {
  chosen = (next + found.list.length) % found.list.length;
  [...box.children].forEach((item, i) => { item.ariaSelected = String(i === chosen); });
  text.setAttribute("aria-activedescendant", "word-" + chosen);
}

/** take writes a word in place of the begun one. It can be undone. */
function take(i) {
  const follows = found.isKey && !text.dataset.words.endsWith(".json") && !text.value.slice(text.selectionStart).startsWith(":") ? ": " : "";
  document.execCommand("insertText", false, found.list[i].slice(found.part.length) + follows);
  close();
}

text.addEventListener("input", (event) => { event.inputType === "insertText" || event.inputType === "deleteContentBackward" ? open(false) : close(); });
text.addEventListener("blur", close);
document.addEventListener("selectionchange", () => { if (text.selectionStart !== place || text.selectionEnd !== place) close(); });
text.addEventListener("keydown", (event) => {
  if (event.key === " " && event.ctrlKey) open(true);
  else if (box.hidden) return;
  else if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp" && chosen >= 0) choose(chosen - 1);
  else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) take(chosen);
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
});
