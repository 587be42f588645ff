// Runs in a world of its own, where a page has replaced nothing; but press runs in that of the page.
(() => {
  const roots = (root = document, all = []) => {
    all.push(root);
    for (const e of root.querySelectorAll('*')) if (e.shadowRoot) roots(e.shadowRoot, all);
    return all;
  };
  const find = s => { for (const r of roots()) { const e = r.querySelector(s); if (e) return e; } return null; };
  const size = () => roots().reduce((n, r) => n + r.querySelectorAll('*').length, 0);
  const links = () => roots().flatMap(r => [...r.querySelectorAll('a[href], area[href]')]).slice(0, 5000).map(a => a.href);

  // html is the tree as text, with what shadow roots show in its place, and a base if scripts have moved the page.
  const html = (most, from) => {
    const plain = u => new URL(u).href.split('#')[0];
    const moved = plain(document.URL) !== plain(from);
    if (roots().length === 1 && !moved) return document.documentElement.outerHTML.slice(0, most + 1);
    const inert = document.implementation.createHTMLDocument('');
    const copy = (node, depth) => {
      const c = inert.importNode(node, node.localName === 'template');
      if (depth > 400 || node.localName === 'template') return c;
      if (node.shadowRoot) for (const n of node.shadowRoot.childNodes) c.appendChild(copy(n, depth + 1));
      for (const n of node.childNodes) c.appendChild(copy(n, depth + 1));
      return c;
    };
    const tree = copy(document.documentElement, 0);
    if (moved) {
      const base = inert.createElement('base');
      base.setAttribute('href', document.baseURI);
      (tree.querySelector('head') || tree).prepend(base);
    }
    return tree.outerHTML.slice(0, most + 1);
  };

  // press presses what nothing was done with yet, the newest first, and the second time those that are there still.
  const pressed = new Map();
  const press = (listens, again) => {
    const all = roots().flatMap(r => [...r.querySelectorAll('*')]).slice(0, 20000).reverse();
    const e = all.find(e => {
      if ((pressed.get(e) || 0) > (again ? 1 : 0) || e.disabled || e === document.body || e === document.documentElement) return false;
      if (e.localName === 'a' && /^https?:/.test(e.href) && !e.getAttribute('href').startsWith('#')) return false;
      return e.localName === 'button' && e.type !== 'reset' || e.localName === 'input' && /^(button|submit)$/.test(e.type) ||
        e.hasAttribute('onclick') || e.getAttribute('role') === 'button' || listens && listens(e);
    });
    if (!e) return false;
    pressed.set(e, (pressed.get(e) || 0) + 1);
    if (e.form) e.form.noValidate = true;
    e.click();
    return true;
  };
  const click = s => {
    const e = find(s);
    if (!e || e.disabled) return false;
    e.scrollIntoView({block: 'center'});
    e.click();
    return true;
  };
  const scroll = () => { scrollTo(0, document.documentElement.scrollHeight); return document.documentElement.scrollHeight; };
  const idle = () => new Promise(done => requestIdleCallback(() => done(true), {timeout: 2000}));
  return {find: s => !!find(s), size, links, html, press, click, scroll, idle};
})()
