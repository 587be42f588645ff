// The search. Its index, searchIndex, is a script that is loaded when a person begins to search: a list of parts of pages,
// each with u, the URL; t, the title of the page; h, the heading; x, the text.
'use strict';
(() => {
	const finder = document.getElementById('finder'), query = document.getElementById('query');
	const found = document.getElementById('found'), results = document.getElementById('results'), count = document.getElementById('count');
	const root = document.body.dataset.root, most = 30, around = 60;
	let index = []; // once it is loaded

	const load = () => {
		const script = document.createElement('script');
		script.src = root + 'search-index.js';
		script.onload = () => {
			index = searchIndex;
			for (const e of index) e.all = [e.t, e.h ?? '', e.x].map(s => s.toLowerCase());
			show();
		};
		document.head.append(script);
	};
	// score is 0 if a word is missing; a word in a title counts more than one in a heading, and that more than one in a text.
	const score = (e, words) => {
		let sum = 0;
		for (const word of words) {
			const one = [8, 6, 1].reduce((n, weight, i) => n + (e.all[i].includes(word) ? weight : 0), 0);
			if (one === 0) return 0;
			sum += one + (e.all[1] === word ? 10 : 0);
		}
		return sum;
	};
	// excerpt is the text around the first of the words, with all words marked.
	const excerpt = (e, words) => {
		const span = document.createElement('span');
		const pattern = new RegExp('(' + words.map(w => w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|') + ')', 'gi');
		const at = words.map(w => e.all[2].indexOf(w)).filter(i => i >= 0), from = Math.max(0, Math.min(...at) - around);
		const text = Number.isFinite(from) ? (from > 0 ? '…' : '') + e.x.slice(from, from + 3 * around) : e.x.slice(0, 3 * around);
		text.split(pattern).forEach((part, i) => {
			const node = i % 2 ? document.createElement('mark') : document.createTextNode(part);
			node.textContent = part;
			span.append(node);
		});
		return span;
	};
	const show = () => {
		const words = query.value.toLowerCase().match(/\S+/g) ?? [];
		found.hidden = words.length === 0 || index.length === 0;
		if (found.hidden) return;
		const all = index.map(e => [score(e, words), e]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]);
		count.textContent = all.length === 0 ? 'Nothing has all of these words.' : all.length === 1 ? '1 place' : `${all.length} places` + (all.length > most ? `, the best ${most}` : '');
		results.replaceChildren(...all.slice(0, most).map(([, e]) => {
			const item = document.createElement('li'), link = document.createElement('a'), name = document.createElement('b');
			link.href = root + e.u;
			name.textContent = e.t + (e.h ? ' › ' + e.h : '');
			link.append(name, excerpt(e, words));
			link.onclick = () => { found.hidden = true; };
			item.append(link);
			return item;
		}));
	};
	query.addEventListener('focus', load, {once: true});
	query.addEventListener('input', show);
	document.addEventListener('keydown', event => {
		const links = [query, ...results.querySelectorAll('a')], at = links.indexOf(document.activeElement);
		const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
		if (event.key === '/' && at < 0 && !event.ctrlKey && !event.metaKey) query.focus();
		else if (event.key === 'Escape' && at >= 0) { query.value = ''; query.focus(); show(); }
		else if (event.key === 'Enter' && at === 0) links[1]?.click();
		else if (step && at >= 0 && !found.hidden) links[Math.max(0, Math.min(links.length - 1, at + step))].focus();
		else return;
		event.preventDefault();
	});
	finder.hidden = false;
	const contents = document.querySelector('.contents');
	if (contents && matchMedia('(min-width: 75.01rem)').matches) contents.open = true;
	// What scrolls sideways can be scrolled by keys.
	for (const box of document.querySelectorAll('pre, .scroll')) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
})();
