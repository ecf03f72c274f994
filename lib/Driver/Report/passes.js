// What each pass changed.

/// Equal lines around a change that are shown.
const contextLines = 3;
/// Rows of a diff that are shown at once.
const rowsAtOnce = 1500;

function changesOf(pass) {
  let added = 0, removed = 0;
  for (const [kind, count, ...fresh] of pass.delta)
    if (kind === 2) {
      removed += count;
      added += fresh.length;
    }
  return {added, removed};
}

/// Rows of a pass: sign, number of the line, and how many equal lines are folded.
function diffRows(index) {
  const before = textAfter(index), rows = [];
  let at = 0;
  for (const [kind, count, ...fresh] of all('pass')[index].delta) {
    if (kind === 2) {
      for (let i = 0; i < count; ++i)
        rows.push(['-', before[at + i]]);
      for (const line of fresh)
        rows.push(['+', line]);
    } else {
      for (let i = 0; i < count; ++i)
        rows.push([' ', kind === 1 ? fresh[i] : before[at + i]]);
    }
    at += count;
  }
  return rows;
}

function drawDiff(index) {
  const rows = diffRows(index), box = h('div', {class: 'diff', tabindex: 0, role: 'region', 'aria-label': 'changes'});
  const draw = ([sign, line]) => h('div', {class: sign === '+' ? 'added' : sign === '-' ? 'removed' : null}, sign + ' ' + lines[line]);
  /// A button that gives way to what it stands for.
  const fold = (text, open) => h('button', {type: 'button', onclick: event => event.currentTarget.replaceWith(...open())}, text);
  function drawRange(first, end) {
    const out = [];
    for (let i = first; i < end;) {
      if (out.length >= rowsAtOnce) {
        out.push(fold(`… ${plural(end - i, 'more line')}`, () => drawRange(i, end)));
        break;
      }
      let stop = i;
      while (stop < end && rows[stop][0] === ' ')
        ++stop;
      const head = i === 0 ? 0 : contextLines, tail = stop === rows.length ? 0 : contextLines;
      if (stop - i > head + tail + 1) {
        const from = i + head, to = stop - tail;
        rows.slice(i, from).forEach(row => out.push(draw(row)));
        out.push(fold(`… ${plural(to - from, 'equal line')}`, () => rows.slice(from, to).map(draw)));
        rows.slice(to, stop).forEach(row => out.push(draw(row)));
        i = stop;
      } else {
        out.push(draw(rows[i++]));
      }
    }
    return out;
  }
  box.append(...drawRange(0, rows.length));
  return box;
}

function passSection() {
  const passes = all('pass'), out = [];
  const longest = Math.max(...passes.map(pass => pass.ms), 1e-9);
  const bar = ms => {
    const element = h('span', {class: 'time', 'aria-hidden': 'true'});
    element.style.width = Math.min(100, ms / longest * 100) + '%';
    return h('span', {class: 'bars'}, element);
  };
  const total = passes.reduce((sum, pass) => sum + pass.ms, 0);
  const byName = new Map();
  passes.forEach(pass => byName.set(pass.name, (byName.get(pass.name) ?? 0) + pass.ms));
  const most = [...byName].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([name, ms]) => `${name} ${milliseconds(ms)}`).join(', ');
  const others = (only('timings')?.timings ?? []).filter(timing => timing.name.startsWith('('));
  const besides = others.map(timing => `${timing.name.slice(1, -1)} ${milliseconds(timing.ms)}`).join(', ');
  out.push(h('p', {}, `${plural(passes.length, 'pass')} took ${milliseconds(total)}` + (most ? `, most of it ${most}.` : '.') +
                      (besides ? ` Beside them: ${besides}.` : '')));
  let level = null;
  for (let i = 0; i < passes.length;) {
    const pass = passes[i], {added, removed} = changesOf(pass);
    if (pass.level !== level) {
      level = pass.level;
      out.push(h('h3', {}, level[0].toUpperCase() + level.slice(1) + ' level'));
    }
    if (added + removed === 0) {
      let end = i, ms = 0;
      const names = [];
      for (; end < passes.length && passes[end].level === level; ++end) {
        const next = changesOf(passes[end]);
        if (next.added + next.removed)
          break;
        ms += passes[end].ms;
        names.push(passes[end].name);
      }
      out.push(h('div', {class: 'same'}, h('span', {class: 'number'}, end > i + 1 ? `${i + 1}–${end}` : String(i + 1)),
                 h('span', {class: 'names'}, 'unchanged: ' + names.join(', ')), h('span', {class: 'number'}, milliseconds(ms)), bar(ms)));
      i = end;
      continue;
    }
    const index = i++;
    out.push(h('details', {
      class: 'pass', 'data-pass': pass.name, ontoggle: event => {
        if (event.currentTarget.open && event.currentTarget.childElementCount === 1)
          event.currentTarget.append(h('p', {class: 'dim'}, pass.summary), drawDiff(index));
      }
    }, h('summary', {}, h('span', {class: 'number dim'}, String(index + 1)), h('span', {class: 'what'}, pass.name),
         h('span', {}, h('span', {class: 'plus'}, '+' + group(added)), ' ', h('span', {class: 'minus'}, '−' + group(removed)),
           h('span', {class: 'dim'}, ' lines')),
         h('span', {class: 'number'}, milliseconds(pass.ms)), bar(pass.ms))));
  }
  if (passes.length === 0)
    out.push(h('p', {class: 'dim'}, 'No pass has run.'));
  return out;
}
