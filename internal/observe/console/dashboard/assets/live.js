// The script of the pages. It asks for the page again and puts in place what is marked
// data-live, and it sends orders. Whatever it shows has been escaped by the server, and the
// policy of the page lets nothing else run.
"use strict";

const every = 1000; // milliseconds between two looks
const longest = 15000; // between two tries while nobody answers
let wait = every, frozen = false, timer = 0, lost = false;

const byId = (id) => document.getElementById(id);

function say(text, problem) {
	const said = byId("said");
	said.textContent = text;
	said.classList.toggle("problem", Boolean(problem));
}

// put replaces what has changed. A link that has the focus keeps it by its id.
function put(next) {
	for (const old of document.querySelectorAll("[data-live]")) {
		const fresh = next.getElementById(old.id);
		if (!fresh || fresh.outerHTML === old.outerHTML) continue;
		const active = document.activeElement;
		const focus = old.contains(active) && active.id;
		const left = old.scrollLeft;
		const node = document.importNode(fresh, true);
		old.replaceWith(node);
		node.scrollLeft = left;
		if (focus) byId(focus)?.focus({ preventScroll: true });
	}
	const now = next.getElementById("main")?.dataset.crawl;
	if (now) enable(now);
}

// enable disables the buttons that have no effect: data-off says in which states of the crawl.
function enable(now) {
	byId("main").dataset.crawl = now;
	const buttons = [...document.querySelectorAll("[data-off]")];
	for (const b of buttons) b.disabled = now === "lost" || b.dataset.off.split(" ").includes(now);
	if (document.activeElement?.disabled) (buttons.find((b) => !b.disabled) ?? byId("freeze")).focus();
}

// lose shows that the figures are old.
function lose(why) {
	if (!lost) {
		say(why + " The figures below are old.", true);
		const badge = byId("state").querySelector(".badge");
		badge.className = "badge state-lost";
		badge.textContent = "no connection";
		enable("lost");
	}
	lost = true;
	wait = Math.min(2 * wait, longest);
}

async function look() {
	clearTimeout(timer);
	if (!frozen && !document.hidden) {
		try {
			const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
			if (answer.redirected) {
				location.reload(); // to the login
				return;
			}
			if (!answer.ok && answer.status !== 404) { // the page of a host that is not known yet is one too
				lose("The crawl refuses to tell more (status " + answer.status + "); it is asked again.");
				return;
			}
			const text = await answer.text();
			if (!frozen) put(new DOMParser().parseFromString(text, "text/html"));
			if (lost) say("");
			lost = false;
			wait = every;
		} catch {
			lose("Nobody answers: the crawl has ended, or its process cannot be reached.");
		} finally {
			timer = setTimeout(look, wait);
		}
	} else timer = setTimeout(look, wait);
}

async function send(path, body) {
	say("…");
	try {
		const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
		const said = await answer.json().catch(() => ({}));
		if (answer.ok) say("Done: " + (said.order || path) + (said.url ? " " + said.url : "") + (said.note ? ". Note: " + said.note : ""));
		else say((said.title || answer.status) + ": " + (said.detail || ""), true);
		wait = every;
		look();
		return answer.ok;
	} catch {
		say("Nobody answered. The order may not have arrived.", true);
		return false;
	}
}

// sure asks before what cannot be taken back.
function sure(question) {
	if (!question) return Promise.resolve(true);
	const dialog = byId("ask");
	byId("question").textContent = question;
	dialog.returnValue = "";
	dialog.showModal();
	return new Promise((tell) => dialog.addEventListener("close", () => tell(dialog.returnValue === "yes"), { once: true }));
}

document.addEventListener("click", async (event) => {
	const button = event.target.closest("[data-order]");
	if (button && (await sure(button.dataset.ask))) send(button.dataset.order, {});
});

function valueOf(field) {
	if (field.type === "number") return field.valueAsNumber;
	if (!("lines" in field.dataset)) return field.value.trim();
	return field.value.split("\n").map((line) => line.trim()).filter(Boolean);
}

document.addEventListener("submit", async (event) => {
	const form = event.target;
	if (!form.dataset.post) return;
	event.preventDefault();
	const body = {};
	for (const field of form.elements) {
		if (field.name) body[field.name] = valueOf(field);
	}
	if ((await send(form.dataset.post, body)) && !("keep" in form.dataset)) form.reset();
});

byId("freeze").addEventListener("click", (event) => {
	frozen = !frozen;
	event.target.textContent = frozen ? "Refresh" : "Stop refreshing";
	if (!frozen) look();
});

for (const part of document.querySelectorAll("[data-script]")) part.hidden = false;
document.addEventListener("visibilitychange", look);
timer = setTimeout(look, every);
