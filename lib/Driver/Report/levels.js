// Texts of all levels side by side; the lines of one graph op light up in all of them.

const rowHeight = 18;
const levelNames = ['graph', 'fused', 'tile', 'masked', 'machine', 'llvm', 'ptx'];
const levelTitles = {llvm: 'LLVM', ptx: 'PTX'};

/// Lines of a level with the place of each; null for one that the compilation did not reach.
function readLevel(name) {
  if (name === 'graph') {
    const begin = only('begin'), byLine = new Map();
    for (const place of begin?.places ?? [])
      if (!byLine.has(place.loc[0]))
        byLine.set(place.loc[0], keyOf(place.loc));
    return begin && {lines: begin.source, keys: begin.source.map((_, i) => byLine.get(i + 1) ?? null)};
  }
  const code = all('code').find(part => part.name === name);
  if (code)
    return {lines: code.text, keys: keysOfRuns(code)};
  const level = all('level').find(part => part.name === name);
  if (!level)
    return null;
  const text = textAfter(level.passes);
  return {lines: text, keys: keysOfRuns(level)};
}

/// Runs of lines with one place: [lines, line, column], or [lines] without one.
const keysOfRuns = level =>
  level.places.flatMap(([count, ...loc]) => Array(count).fill(loc.length ? keyOf(loc) : null));

class Column {
  constructor(view, name, level) {
    Object.assign(this, {view, name, level, cursor: 0});
    this.rowsOf = new Map(); // Of each key.
    let longest = 0;
    level.keys.forEach((key, row) => {
      longest = Math.max(longest, lines[level.lines[row]].length);
      if (key)
        this.rowsOf.has(key) ? this.rowsOf.get(key).push(row) : this.rowsOf.set(key, [row]);
    });
    this.id = 'level-' + name;
    this.count = h('span', {class: 'dim'});
    this.rows = h('div', {class: 'rows'});
    this.rows.style.width = `calc(${longest + 8}ch)`;
    this.rows.style.fontFamily = 'var(--mono)';
    this.rows.style.fontSize = '12px';
    const space = h('div', {role: 'presentation'});
    space.style.height = level.lines.length * rowHeight + 'px';
    this.body = h('div', {
      class: 'body', tabindex: 0, role: 'listbox', 'aria-label': `${levelTitles[name] ?? name} level`,
      onscroll: () => this.draw(),
      onmousemove: event => this.hover(event),
      onmouseleave: () => view.show(view.pinned, this),
      onclick: event => { this.cursor = this.rowAt(event); view.pin(this.level.keys[this.cursor], this); },
      onkeydown: event => this.key(event),
      onfocus: () => this.level.keys[this.cursor] && !view.pinned && view.show(this.level.keys[this.cursor], this),
    }, space, this.rows);
    this.marks = h('div', {class: 'marks', 'aria-hidden': 'true'});
    this.element = h('section', {class: 'column', 'data-level': name},
                     h('header', {}, h('b', {}, levelTitles[name] ?? name), this.count), this.body, this.marks);
  }

  rowAt(event) {
    const y = event.clientY - this.body.getBoundingClientRect().top + this.body.scrollTop;
    return Math.max(0, Math.min(this.level.lines.length - 1, Math.floor(y / rowHeight)));
  }

  hover(event) {
    const key = this.level.keys[this.rowAt(event)];
    if (key && !this.view.pinned)
      this.view.show(key, this);
  }

  key(event) {
    const last = this.level.lines.length - 1, page = Math.floor(this.body.clientHeight / rowHeight) - 1;
    const lit = this.rowsOf.get(this.view.active) ?? [];
    const moves = {
      ArrowDown: () => this.cursor + 1, ArrowUp: () => this.cursor - 1, PageDown: () => this.cursor + page,
      PageUp: () => this.cursor - page, Home: () => 0, End: () => last,
      n: () => lit.find(row => row > this.cursor) ?? lit[0] ?? this.cursor,
      p: () => lit.findLast(row => row < this.cursor) ?? lit.at(-1) ?? this.cursor,
    };
    if (event.ctrlKey || event.metaKey || event.altKey)
      return;
    if (moves[event.key]) {
      this.cursor = Math.max(0, Math.min(last, moves[event.key]()));
      this.reveal(this.cursor);
      if (!this.view.pinned && this.level.keys[this.cursor])
        this.view.show(this.level.keys[this.cursor], this);
      this.draw();
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.view.pin(this.level.keys[this.cursor], this);
    } else if (event.key === 'Escape') {
      this.view.pin(null, this);
    } else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      this.view.move(this, event.key === 'ArrowLeft' ? -1 : 1);
    } else {
      return;
    }
    event.preventDefault();
  }

  reveal(row) {
    const top = row * rowHeight, {scrollTop, clientHeight} = this.body;
    if (top < scrollTop + rowHeight || top + 2 * rowHeight > scrollTop + clientHeight)
      this.body.scrollTop = Math.max(0, top - clientHeight / 3);
  }

  /// Only lines that can be seen are elements.
  draw() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / rowHeight) - 10);
    const end = Math.min(this.level.lines.length, first + Math.ceil((this.body.clientHeight || 600) / rowHeight) + 20);
    this.rows.style.top = first * rowHeight + 'px';
    this.rows.replaceChildren();
    for (let row = first; row < end; ++row) {
      const key = this.level.keys[row], text = lines[this.level.lines[row]], isLit = key !== null && key === this.view.active;
      const loc = this.name === 'graph' ? null : / loc\(\d+:\d+\)$/.exec(text)?.[0];
      this.rows.append(h('div', {
        class: 'line' + (key ? ' linked' : '') + (isLit ? ' lit' : '') + (row === this.cursor ? ' cursor' : ''),
        id: `${this.id}-${row}`, role: 'option', 'aria-selected': String(isLit), 'data-key': key,
      }, h('span', {class: 'n', 'aria-hidden': 'true'}, String(row + 1)),
         h('span', {}, loc ? text.slice(0, -loc.length) : text), loc && h('span', {class: 'loc'}, loc)));
    }
    this.body.setAttribute('aria-activedescendant', `${this.id}-${this.cursor}`);
  }

  /// Lights up the lines of an op; shows the first unless the reader is here.
  light(isOrigin) {
    const rows = this.rowsOf.get(this.view.active) ?? [];
    if (rows.length && !isOrigin) {
      this.cursor = rows[0];
      this.reveal(rows[0]);
    }
    this.count.textContent = this.view.active ? `${plural(rows.length, 'line')} of ${group(this.level.lines.length)}`
                                              : plural(this.level.lines.length, 'line');
    const step = Math.ceil(rows.length / 200);
    this.marks.replaceChildren(...rows.filter((_, i) => i % step === 0).map(row => {
      const mark = h('i');
      mark.style.top = row / this.level.lines.length * 100 + '%';
      return mark;
    }));
    this.draw();
  }
}

class LevelView {
  constructor() {
    this.levels = levelNames.filter(readLevelOnce);
    this.active = this.pinned = null;
    // The last that were chosen are shown.
    this.chosen = ['machine', 'ptx', 'graph'].filter(name => this.levels.includes(name));
    if (this.chosen.length < 2 && this.levels.length > 1)
      this.chosen = [this.levels.at(-1), this.levels[0]];
    this.status = h('p', {class: 'status', role: 'status'});
    this.grid = h('div', {class: 'levels'});
    this.buttons = new Map(this.levels.map(name => [name, h('button', {
      type: 'button', 'aria-pressed': 'false', onclick: () => this.toggle(name)}, levelTitles[name] ?? name)]));
    this.element = h('div', {}, h('div', {class: 'bar', role: 'group', 'aria-label': 'Levels to show'},
                                  h('span', {class: 'dim'}, 'Show'), [...this.buttons.values()]),
                     this.status, this.grid);
    this.build();
    addEventListener('resize', () => {
      if (this.chosen.length > this.most())
        this.build();
      else
        this.columns.forEach(column => column.draw());
    });
  }

  most() { return innerWidth >= 1100 ? 3 : innerWidth >= 640 ? 2 : 1; }

  toggle(name) {
    this.chosen = this.chosen.includes(name) ? this.chosen.filter(other => other !== name) : [...this.chosen, name];
    if (this.chosen.length === 0)
      this.chosen = [name];
    this.build();
  }

  build() {
    this.chosen = this.chosen.slice(-this.most());
    this.columns = this.levels.filter(name => this.chosen.includes(name)).map(name => new Column(this, name, readLevelOnce(name)));
    this.grid.replaceChildren(...this.columns.map(column => column.element));
    for (const [name, button] of this.buttons)
      button.setAttribute('aria-pressed', String(this.chosen.includes(name)));
    this.show(this.pinned ?? this.active);
  }

  show(key, origin) {
    this.active = key;
    this.status.replaceChildren(...(key ? [h('b', {}, titleOf(key)), this.pinned ? ' — pinned, Escape lets go' : '']
      : [h('span', {class: 'dim'}, 'Point at a line, or move with the arrow keys: all lines of the same graph op light up. ' +
                                   'Enter pins it, n and p go through its lines.')]));
    for (const column of this.columns)
      column.light(column === origin);
  }

  pin(key, origin) {
    this.pinned = key === this.pinned ? null : key;
    this.show(this.pinned ?? key, origin);
  }

  move(from, step) {
    const to = this.columns[this.columns.indexOf(from) + step];
    if (to)
      to.body.focus({preventScroll: true});
  }
}

const knownLevels = new Map();
function readLevelOnce(name) {
  if (!knownLevels.has(name))
    knownLevels.set(name, readLevel(name));
  return knownLevels.get(name);
}

let levelView = null;
function levelSection() {
  levelView ??= new LevelView();
  // What the columns show depends on their height, which they have once they are on the page.
  requestAnimationFrame(() => levelView.columns.forEach(column => column.light(false)));
  return levelView.element;
}
/// Goes to the lines of an op.
function showInLevels(key) {
  location.hash = 'levels';
  requestAnimationFrame(() => {
    levelView.pinned = null;
    levelView.pin(key);
  });
}
