// What each kernel costs, how near the limit that is, and what was proved about it.

/// A region without the graph's name in front.
const kernelName = name => name.slice(name.indexOf('.') + 1);
const sameLoc = (a, b) => a && b && a[0] === b[0] && a[1] === b[1];

/// Regions with what is known of each: work, schedule, kernels.
function readRegions() {
  const fusion = only('fusion');
  if (!fusion)
    return [];
  const kernels = only('kernels')?.kernels ?? [];
  // Launches of custom ops have no region.
  let next = 0;
  return fusion.launches.map((launch, i) => {
    const region = launch.custom ? null : fusion.regions[next++];
    return {
      number: i + 1, launch, region, name: region ? kernelName(region.name) : launch.name,
      kernels: kernels.filter(kernel => kernel.places.some(loc => sameLoc(loc, launch.loc))), limit: limitOf(launch),
    };
  });
}

function kernelTable(regions) {
  const used = kernel => only('ptxas')?.kernels.find(other => other.name === kernel.name);
  const each = (region, value) => region.kernels.length ? region.kernels.map(value).join(', ') : '–';
  return table(
    ['Kernel', 'Computes', number('Bytes'), number('FLOP'), number('FLOP/B'), number('At the limit'), 'Bound by', number('Threads'),
     number('Registers'), number('Shared'), number('Spills')],
    regions.map(region => [
      h('span', {class: 'name'}, region.number + '  ' + region.name),
      wide(region.launch.name),
      number(bytes(region.limit.bytes)), number(region.limit.flops ? scaled(region.limit.flops, '') : '0'),
      number(digits(region.limit.intensity)), number(microseconds(region.limit.us)),
      h('span', {class: 'bound ' + region.limit.bound}, region.limit.bound),
      number(each(region, kernel => kernel.threads)),
      number(region.kernels.some(used) ? each(region, kernel => used(kernel)?.registers ?? '–')
                                       : region.region ? '≥ ' + region.region.registers : '–'),
      number(each(region, kernel => bytes(kernel.shared))),
      number(each(region, kernel => used(kernel) ? bytes(used(kernel).spill_stores + used(kernel).spill_loads) : '–')),
    ]));
}
function wide(text) {
  const element = h('span', {'data-wide': '1'}, text);
  return element;
}

//===- Roofline -===//

function roofline(regions) {
  const {gbps, product, tflops} = only('begin').target;
  const shown = regions.filter(region => region.limit.flops > 0 && region.limit.bytes > 0);
  if (shown.length === 0)
    return h('p', {class: 'dim'}, 'No kernel computes with floats: there is nothing to plot.');
  const measured = only('measured');
  const peaks = [...new Set([tflops, ...shown.map(region => region.limit.peak)])].sort((a, b) => a - b);
  const rate = region => region.limit.flops / (region.limit.us * 1e6);
  const log = Math.log10;
  const xs = [...shown.map(region => region.limit.intensity), ...peaks.map(peak => peak * 1e3 / gbps)];
  const x0 = log(Math.min(...xs) / 3), x1 = log(Math.max(...xs) * 3);
  const y0 = log(Math.min(...shown.map(rate), peaks[0]) / 4), y1 = log(peaks.at(-1) * 2);
  const width = 900, height = 460, left = 64, right = 24, top = 20, bottom = 48;
  const x = value => left + (log(value) - x0) / (x1 - x0) * (width - left - right);
  const y = value => height - bottom - (log(value) - y0) / (y1 - y0) * (height - top - bottom);
  const grid = [];
  const label = power => power >= 0 && power < 4 ? String(10 ** power) : power < 0 && power > -4 ? (10 ** power).toFixed(-power) : '1e' + power;
  for (let power = Math.ceil(x0); power <= x1; ++power)
    grid.push(s('line', {class: 'grid', x1: x(10 ** power), x2: x(10 ** power), y1: top, y2: height - bottom}),
              s('text', {x: x(10 ** power), y: height - bottom + 17, 'text-anchor': 'middle', class: 'small'}, label(power)));
  for (let power = Math.ceil(y0); power <= y1; ++power)
    grid.push(s('line', {class: 'grid', x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power)}),
              s('text', {x: left - 8, y: y(10 ** power) + 4, 'text-anchor': 'end', class: 'small'}, label(power)));
  const start = 10 ** x0, bend = peak => peak * 1e3 / gbps, bottomEdge = 10 ** y0;
  const memoryAt = intensity => intensity * gbps / 1e3;
  const from = Math.max(start, bottomEdge * 1e3 / gbps);
  const roofs = peaks.map(peak => s('path', {class: 'roof', d: `M${x(from)} ${y(memoryAt(from))} L${x(bend(peak))} ${y(peak)} H${width - right}`}));
  const names = peaks.map(peak => s('text', {x: width - right - 4, y: y(peak) - 6, 'text-anchor': 'end', class: 'small'},
                                    `${digits(peak)} TFLOP/s` + (peak === tflops ? ', f32 without tensor cores' : ', tensor cores')));
  const middle = Math.sqrt(from * bend(peaks[0])), angle = -Math.atan2(y(memoryAt(from)) - y(peaks[0]), x(bend(peaks[0])) - x(from)) * 180 / Math.PI;
  names.push(s('text', {x: x(middle), y: y(memoryAt(middle)) - 8, 'text-anchor': 'middle', class: 'small',
                        transform: `rotate(${angle.toFixed(1)} ${x(middle)} ${y(memoryAt(middle)) - 8})`}, `${group(gbps)} GB/s`));
  // Numbers beside the dots; those of dots in one place stand together, and one that would lie on another goes further down.
  const taken = [], dots = [], places = [];
  for (const region of [...shown].sort((a, b) => a.limit.intensity - b.limit.intensity || rate(a) - rate(b))) {
    const cx = x(region.limit.intensity), cy = y(rate(region)), near = places.find(p => Math.abs(p.cx - cx) < 9 && Math.abs(p.cy - cy) < 9);
    near ? near.numbers.push(region.number) : places.push({cx, cy, numbers: [region.number]});
    const title = `${region.number} ${region.name}: ${digits(region.limit.intensity)} FLOP/B, at most ${digits(rate(region))} TFLOP/s, bound by ${region.limit.bound}`;
    const shape = region.limit.bound === 'compute'
      ? s('path', {class: 'dot compute', d: `M${cx} ${cy - 7} L${cx + 7} ${cy} L${cx} ${cy + 7} L${cx - 7} ${cy} z`})
      : region.limit.bound === 'memory' ? s('rect', {class: 'dot memory', x: cx - 6, y: cy - 4, width: 12, height: 8})
                                        : s('circle', {class: 'dot launch', cx, cy, r: 5.5});
    dots.push(s('g', {role: 'img', 'aria-label': title, 'data-number': region.number}, s('title', {}, title), shape));
  }
  for (const {cx, cy, numbers} of places) {
    const text = numbers.sort((a, b) => a - b).join(', '), wide = text.length * letterWidth, tx = cx + 11;
    let ty = cy + 17;
    while (taken.some(other => other.x < tx + wide && tx < other.end && Math.abs(other.y - ty) < 14))
      ty += 14;
    taken.push({x: tx, end: tx + wide, y: ty});
    dots.push(s('line', {class: 'lead', x1: cx, y1: cy, x2: tx - 1, y2: ty - 5}), s('text', {x: tx, y: ty, class: 'title'}, text));
  }
  if (measured) {
    const flops = regions.reduce((sum, region) => sum + region.limit.flops, 0), moved = regions.reduce((sum, region) => sum + region.limit.bytes, 0);
    const value = flops / (measured.graph_us * 1e6), cx = x(flops / moved), cy = y(Math.max(value, bottomEdge));
    dots.push(s('g', {role: 'img', 'aria-label': `measured: ${digits(value)} TFLOP/s`}, s('path', {stroke: 'var(--fg)', 'stroke-width': 2, d: `M${cx - 6} ${cy - 6} L${cx + 6} ${cy + 6} M${cx + 6} ${cy - 6} L${cx - 6} ${cy + 6}`}),
                s('text', {x: cx + 10, y: cy + 4, class: 'title'}, 'whole graph, measured')));
  }
  return h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'roofline'}, s('svg', {
    class: 'roofline', viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': `roofline of the ${product}`,
  }, grid, roofs, names, dots,
     s('text', {x: (left + width - right) / 2, y: height - 8, 'text-anchor': 'middle'}, 'FLOP for each byte moved'),
     s('text', {x: 16, y: height / 2, 'text-anchor': 'middle', transform: `rotate(-90 16 ${height / 2})`}, 'TFLOP/s at most')));
}

//===- One kernel -===//

function factTables(region) {
  const masks = only('masks'), out = [], names = new Set(region.kernels.map(kernel => kernel.name));
  const mine = fact => names.has(fact.kernel);
  const accesses = masks?.accesses.filter(mine) ?? [], paddings = masks?.padding.filter(mine) ?? [];
  if (accesses.length)
    out.push(h('h3', {}, 'Accesses'), table(['Access', 'Line', number('Axis'), 'In bounds', 'Why'], accesses.map(fact => [
      fact.what, keyOf(fact.loc) ?? '–', number(fact.axis), fact.masked ? 'masked' : 'proved',
      wide(fact.why + (fact.fill ? `; lanes behind it hold ${fact.fill}` : ''))])));
  if (paddings.length)
    out.push(h('h3', {}, 'Padding'), table(['Reduction', 'Line', number('Axis'), 'Padding', 'Identity', 'Proof'], paddings.map(fact => [
      fact.what, keyOf(fact.loc) ?? '–', number(fact.axis), fact.padding, fact.identity, wide(fact.proof)])));
  return out;
}

function kernelDetail(region) {
  const {region: choice, limit} = region;
  return h('details', {class: 'kernel', 'data-number': region.number},
           h('summary', {}, h('b', {}, `${region.number}  ${region.name}`), ' ', h('span', {class: 'bound ' + limit.bound}, limit.bound), ' ',
             h('span', {class: 'dim'}, `${microseconds(limit.us)} at the limit`)),
           h('p', {}, limit.why),
           isOpen() && h('p', {}, 'Bytes: ', h('code', {}, region.launch.bytes), '; FLOP: ',
                         h('code', {}, region.launch.work.map(work => work.flops).join(' + ') || '0'), `; here at ${openText()}.`),
           region.kernels.map(kernel => h('p', {}, 'Kernel ', h('code', {}, '@' + kernel.name), `: ${plural(kernel.threads, 'thread')} a program` +
             (kernel.cluster > 1 ? ` and CTA, ${kernel.cluster} CTAs` : '') + `, ${bytes(kernel.shared)} of shared memory.`)),
           choice && [h('p', {}, 'Schedule ', h('code', {}, choice.schedule), ' ', choice.origin + '.'),
                      choice.product && h('p', {class: 'dim'}, choice.product + '.'),
                      choice.considered.length > 0 && [h('h3', {}, 'Tiles that the cost model compared'),
                        table(['Tile', number('Cycles'), 'Why not'], choice.considered.map(tile => [
                          tile.tile, number(tile.cycles === null ? '–' : group(tile.cycles)), wide(tile.why)]))]],
           factTables(region));
}

//===- All -===//

function openDimInputs(redraw) {
  if (!isOpen())
    return null;
  return h('div', {class: 'bar', role: 'group', 'aria-label': 'Sizes'}, h('span', {}, 'At another shape:'),
           Object.keys(openDims).map(name => h('label', {}, name + ' ', h('input', {
             type: 'number', min: 1, value: openDims[name], 'data-dim': name, onchange: event => {
               openDims[name] = Math.max(0, Math.round(Number(event.target.value)) || 0);
               redraw();
             }}))));
}

function kernelSection() {
  const {target} = only('begin'), box = h('div');
  const draw = () => {
    const regions = readRegions(), total = regions.reduce((sum, region) => sum + region.limit.us, 0), measured = only('measured');
    if (regions.length === 0) {
      box.replaceChildren(h('p', {class: 'dim'}, 'The compilation did not get as far as kernels.'));
      return;
    }
    const named = new Set(regions.flatMap(region => region.kernels)), others = (only('kernels')?.kernels ?? []).filter(kernel => !named.has(kernel));
    box.replaceChildren(...[
      h('p', {}, `All kernels at their limits take ${microseconds(total)} on the ${target.product} (${target.name}: ${group(target.gbps)} GB/s, ` +
        `${digits(target.tflops)} TFLOP/s in f32; rates of its data sheet).`,
        measured && ` Measured on ${measured.device}: ${microseconds(measured.graph_us)} in a CUDA graph, ${Math.round(total / measured.graph_us * 100)} % of the limit${measured.graph_us < total ? ', since data stays in the L2 cache' : ''}; ` +
        `${microseconds(measured.warm_us)} as single launches, ${microseconds(measured.cold_us)} with a cold L2.`),
      kernelTable(regions),
      others.length > 0 && h('p', {class: 'dim'}, 'Beside them, copies and other steps: ' + others.map(kernel => '@' + kernel.name).join(', ') + '.'),
      h('h2', {}, 'Roofline'),
      h('p', {class: 'dim'}, 'Each kernel by its number, at the highest rate that the target lets it reach. The sloping line is memory, level ones are arithmetic; a kernel on a line is bound by it, one below them by its launch.'),
      roofline(regions),
      h('h2', {}, 'Each kernel'), regions.map(kernelDetail)].flat().filter(Boolean));
  };
  draw();
  return [openDimInputs(draw), box];
}
