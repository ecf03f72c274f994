// What all parts of the page share: the data, elements, numbers, formulas.
'use strict';

//===- Data -===//

/// Parts by name, each a list in the order in which they were written. One that is cut is left out.
const parts = new Map();
/// Each line of text is stored once; texts are lists of numbers of lines.
const lines = [];

function readParts() {
  for (const block of document.querySelectorAll('script[type="application/json"]')) {
    let data;
    try {
      data = JSON.parse(block.textContent);
    } catch {
      continue;
    }
    for (const line of data.lines ?? [])
      lines.push(line);
    const name = block.dataset.part;
    if (!parts.has(name))
      parts.set(name, []);
    parts.get(name).push(data);
    block.remove();
  }
}

const all = name => parts.get(name) ?? [];
const only = name => all(name)[0];

const moduleTexts = [];
/// The module's text after so many passes, made of the one before by what the pass changed.
function textAfter(passes) {
  if (moduleTexts.length === 0)
    moduleTexts.push(only('text')?.text ?? []);
  while (moduleTexts.length <= passes) {
    const before = moduleTexts.at(-1), text = [];
    let at = 0;
    for (const [kind, count, ...fresh] of all('pass')[moduleTexts.length - 1].delta) {
      if (kind === 0)
        for (let i = at; i < at + count; ++i)
          text.push(before[i]);
      else
        for (const line of fresh)
          text.push(line);
      at += count;
    }
    moduleTexts.push(text);
  }
  return moduleTexts[passes];
}

/// A place as a key, `9:10`; null if there is none.
const keyOf = loc => loc ? loc[0] + ':' + loc[1] : null;
/// `matmul %o at 9:10`.
function titleOf(key) {
  const op = only('begin')?.places.find(place => keyOf(place.loc) === key);
  return (op ? op.op + ' at ' : 'line ') + key;
}

//===- Elements -===//

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else if (value === true)
      element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value);
  }
  // Text is text: nothing of the data is ever read as HTML.
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

function table(head, rows) {
  const cell = (tag, content, extra) => {
    const isNumber = typeof content === 'object' && content !== null && 'number' in content;
    return h(tag, {...extra, class: isNumber ? 'number' : content instanceof Node && content.dataset?.wide ? 'wide' : null},
             isNumber ? content.number : content);
  };
  return h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'table'},
           h('table', {}, head.some(title => title !== '') && h('thead', {}, h('tr', {}, head.map(title => cell('th', title, {scope: 'col'})))),
             h('tbody', {}, rows.map(row => h('tr', {}, row.map((content, i) => i === 0 ? cell('th', content, {scope: 'row'})
                                                                                        : cell('td', content)))))));
}
const number = text => ({number: text});

//===- Numbers -===//

const group = n => Math.round(n).toLocaleString('en-US');
/// Three digits.
function digits(value) {
  if (value === 0 || !isFinite(value))
    return String(value);
  return Math.abs(value) >= 1000 ? group(value) : String(Number(value.toPrecision(3)));
}
function scaled(value, unit) {
  const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
  let i = 0;
  for (; Math.abs(value) >= 1000 && i + 1 < prefixes.length; ++i)
    value /= 1000;
  return digits(value) + ' ' + prefixes[i] + unit;
}
const bytes = n => scaled(n, 'B');
const microseconds = us => us >= 1000 ? digits(us / 1000) + ' ms' : digits(us) + ' µs';
const milliseconds = ms => ms >= 100 ? Math.round(ms) + ' ms' : ms.toFixed(2) + ' ms';
const plural = (n, noun) => group(n) + ' ' + noun + (n === 1 ? '' : /(ch|s)$/.test(noun) ? 'es' : 's');

//===- Formulas -===//

/// A size as the compiler writes it: `ceildiv(N, 128)*M + 2`. NaN where a name has no value.
function evaluate(text, dims) {
  const tokens = text.match(/[A-Za-z_]\w*|\d+|[-+*(),]/g) ?? [];
  let at = 0;
  const take = token => tokens[at] === token ? (++at, true) : false;
  function factor() {
    if (take('-'))
      return -factor();
    if (take('(')) {
      const value = sum();
      take(')');
      return value;
    }
    const token = tokens[at++];
    if (token === 'ceildiv') {
      take('(');
      const a = sum();
      take(',');
      const b = sum();
      take(')');
      return Math.ceil(a / b);
    }
    return /^\d/.test(token) ? Number(token) : dims[token] ?? NaN;
  }
  function product() {
    let value = factor();
    while (take('*'))
      value *= factor();
    return value;
  }
  function sum() {
    let value = product();
    for (;;) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        return value;
    }
  }
  return sum();
}

/// Values of the names that were left open; the page lets them be changed.
const openDims = {};
const isOpen = () => Object.keys(openDims).length > 0;
const openText = () => Object.entries(openDims).map(([name, value]) => name + ' = ' + group(value)).join(', ');

//===- Limits -===//

/// What a launch takes at least, by the rates of the target: as LaunchLimit.h has it.
function limitOf(launch) {
  const {gbps, tflops, launch_us} = only('begin').target;
  const limit = {bytes: evaluate(launch.bytes, openDims), flops: 0, peak: tflops};
  let onTensorCores = 0, elsewhere = 0, most = -1;
  for (const work of launch.work) {
    const flops = evaluate(work.flops, openDims), us = flops / (work.tflops * 1e6);
    limit.flops += flops;
    if (work.tensor)
      onTensorCores += us;
    else
      elsewhere += us;
    if (us > most)
      [most, limit.peak] = [us, work.tflops];
  }
  limit.memoryUs = limit.bytes / (gbps * 1e3);
  limit.computeUs = Math.max(onTensorCores, elsewhere);
  const busy = Math.max(limit.memoryUs, limit.computeUs);
  limit.us = Math.max(busy, launch_us);
  limit.bound = busy < launch_us ? 'launch' : limit.memoryUs >= limit.computeUs ? 'memory' : 'compute';
  limit.intensity = limit.bytes ? limit.flops / limit.bytes : 0;
  limit.ridge = limit.peak * 1e3 / gbps;
  limit.why = limit.bound === 'launch'
    ? `Moving its bytes and computing take ${microseconds(busy)} at the rates of the target, less than the ` +
      `${microseconds(launch_us)} that a launch costs by itself: more work per launch would be free.`
    : limit.bound === 'memory'
    ? `Memory is the limit: ${bytes(limit.bytes)} at ${group(gbps)} GB/s take ${microseconds(limit.memoryUs)}, its arithmetic ` +
      `only ${microseconds(limit.computeUs)}. It does ${digits(limit.intensity)} FLOP for each byte; from ` +
      `${digits(limit.ridge)} on arithmetic would be the limit.`
    : `Arithmetic is the limit: ${scaled(limit.flops, 'FLOP')} at ${digits(limit.peak)} TFLOP/s take ` +
      `${microseconds(limit.computeUs)}, moving its bytes only ${microseconds(limit.memoryUs)}. It does ` +
      `${digits(limit.intensity)} FLOP for each byte; from ${digits(limit.ridge)} on arithmetic is the limit.`;
  return limit;
}
