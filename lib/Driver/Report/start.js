// The overview, and the page as a whole.

function overviewSection() {
  const begin = only('begin'), regions = readRegions(), end = only('end'), eager = begin.eager;
  const fused = regions.reduce((sum, region) => sum + region.limit.bytes, 0);
  const figure = (value, text) => h('li', {}, h('b', {}, value), text);
  const total = regions.reduce((sum, region) => sum + region.limit.us, 0), flops = regions.reduce((sum, region) => sum + region.limit.flops, 0);
  const passes = all('pass'), took = passes.reduce((sum, pass) => sum + pass.ms, 0), code = only('timings')?.timings.filter(
    timing => timing.name.startsWith('(generate')).reduce((sum, timing) => sum + timing.ms, 0);
  const ops = only('before')?.ops.filter(op => op.label !== 'input' && op.label !== 'result').length;
  const sizes = Object.entries(begin.dims).map(([name, value]) => `${name} = ${group(value)}`).join(', ');
  const heavy = [...regions].sort((a, b) => b.limit.us - a.limit.us).slice(0, 3);
  const bounds = ['memory', 'compute', 'launch'].map(bound => [bound, regions.filter(region => region.limit.bound === bound).length]).filter(([, n]) => n);
  const measured = only('measured');
  return [
    h('ul', {class: 'figures'},
      figure(group(ops), 'ops in the graph'),
      regions.length > 0 && figure(group(regions.length), regions.length === 1 ? 'kernel' : 'kernels' + (begin.mode === 'eager' ? ', one an op' : ' after fusion')),
      regions.length > 0 && figure(bytes(fused), 'moved by them'),
      regions.length > 0 && figure(scaled(flops, 'FLOP'), 'computed'),
      regions.length > 0 && figure(microseconds(total), 'at the limits of the target'),
      measured && figure(microseconds(measured.graph_us), 'measured on ' + measured.device),
      passes.length > 0 && figure(milliseconds(took), `in ${plural(passes.length, 'pass')}` + (code ? `; code ${milliseconds(code)}` : ''))),
    h('div', {class: 'beside'}, h('div', {}, h('h2', {}, 'What was compiled'), table(['', ''], [
      ['Graph', '@' + begin.graph], ['File', wide(begin.file)], ['Target', `${begin.target.name} (${begin.target.product})`],
      ['Numerics', begin.numerics], ['Mode', begin.mode], ['Sizes', sizes || (isOpen() ? '–' : 'all are numbers')],
      isOpen() && ['Left open', openText() + ' where the page shows numbers; change them in Kernels'],
      ['minic', begin.version]].filter(Boolean))),
      regions.length > 0 && eager && h('div', {}, h('h2', {}, 'What fusion saves'), table(['', number('Launches'), number('Bytes moved')], [
      ['Eager, a kernel for each op', number(group(eager.launches)), number(group(eager.bytes))],
      ['As compiled', number(group(regions.length)), number(group(fused))],
      ['Ratio', number(digits(eager.launches / regions.length) + ' : 1'), number(digits(eager.bytes / fused) + ' : 1')]]))),
    regions.length > 0 && h('div', {}, h('h2', {}, 'What bounds it'),
      h('p', {}, bounds.map(([bound, n]) => `${plural(n, 'kernel')} ${n === 1 ? 'is' : 'are'} bound by ${bound}`).join(', ') + '. Those with the longest way to go:'),
      h('ol', {}, heavy.map(region => h('li', {}, h('b', {}, region.name), ' ', h('span', {class: 'bound ' + region.limit.bound}, region.limit.bound),
        ` ${microseconds(region.limit.us)} at least. `, h('span', {class: 'dim'}, region.limit.why))))),
    end && !end.errors && h('p', {class: 'dim'}, 'The compilation ended without errors.')];
}

const sections = [['overview', 'Overview', overviewSection], ['graph', 'Graph', graphSection], ['levels', 'Levels', levelSection],
                  ['passes', 'Passes', passSection], ['kernels', 'Kernels', kernelSection]];
const drawn = new Map();

/// Sections are drawn when they are first looked at.
function showSection() {
  const wanted = location.hash.slice(1), [name, , draw] = sections.find(([other]) => other === wanted) ?? sections[0];
  for (const link of document.querySelectorAll('#tabs a'))
    link.hash === '#' + name ? link.setAttribute('aria-current', 'page') : link.removeAttribute('aria-current');
  const again = name !== 'overview' && name !== 'graph' && drawn.has(name);
  if (!again)
    drawn.set(name, h('div', {id: 'section-' + name}, draw()));
  document.getElementById('page').replaceChildren(drawn.get(name));
  if (again && name === 'levels')
    levelSection();
}

/// Where the compilation ended, if that was before its end.
function sayHowItEnded() {
  const cut = document.getElementById('cut'), end = only('end'), passes = all('pass');
  if (!end) {
    cut.textContent = 'minic ended here, without a word' +
      (passes.length ? `: pass ${passes.length}, ${passes.at(-1).name}, is the last that was done.` : ', before the first pass was done.') +
      ' All that it had written until then is below.';
    return;
  }
  cut.remove();
  if (end.errors)
    document.getElementById('tabs').before(h('div', {class: 'failure', role: 'alert'}, h('b', {}, 'The compilation failed' +
      (passes.length ? ` after pass ${passes.length}, ${passes.at(-1).name}` : '')), h('pre', {}, end.errors)));
}

document.addEventListener('DOMContentLoaded', () => {
  readParts();
  sayHowItEnded();
  if (!only('begin'))
    return;
  for (const name of only('begin').free)
    openDims[name] = 1024;
  document.getElementById('tabs').append(...sections.map(([name, title]) => h('a', {href: '#' + name}, title)));
  addEventListener('hashchange', showSection);
  showSection();
});
