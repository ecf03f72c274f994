// The graph before and after fusion: ops as boxes in layers, regions around them, values as lines.

const letterWidth = 7.3, boxHeight = 38, gapX = 22, gapY = 34, regionPad = 14;

/// Places boxes of given sizes in layers, so that each edge goes down; those with `pin` in the first or the last one. Gives centers,
/// the size of all, and the points that each edge goes through on the way.
function layered(sizes, edges) {
  const count = sizes.length, into = sizes.map(() => []), out = sizes.map(() => []);
  edges.forEach(({from, to}) => { into[to].push(from); out[from].push(to); });
  // Each box below all that it reads; one that reads nothing just above its first reader.
  const layer = Array(count).fill(0), left = into.map(list => list.length), order = [];
  const ready = sizes.map((_, i) => i).filter(i => left[i] === 0);
  while (ready.length) {
    const i = ready.shift();
    order.push(i);
    for (const to of out[i]) {
      layer[to] = Math.max(layer[to], layer[i] + 1);
      if (--left[to] === 0)
        ready.push(to);
    }
  }
  for (let i = 0; i < count; ++i)
    if (into[i].length === 0 && out[i].length && sizes[i].pin !== 'top')
      layer[i] = Math.min(...out[i].map(to => layer[to])) - 1;
  const below = Math.max(...layer.filter((_, i) => sizes[i].pin !== 'bottom'), 0) + 1;
  const above = Math.min(...layer) - 1;
  sizes.forEach(({pin}, i) => { layer[i] = pin === 'top' ? above : pin === 'bottom' ? below : layer[i]; });
  const lowest = Math.min(...layer);
  const items = sizes.map((size, i) => ({width: size.width, height: size.height, layer: layer[i] - lowest, up: [], down: []}));
  const layers = [];
  const place = item => ((layers[item.layer] ??= []).push(item), item);
  order.forEach(i => place(items[i]));
  // Edges over several layers go through points of their own.
  const routes = edges.map(({from, to}) => {
    const points = [];
    let last = items[from];
    for (let at = items[from].layer + 1; at < items[to].layer; ++at) {
      const point = place({width: 10, height: 0, layer: at, up: [last], down: []});
      last.down.push(point);
      points.push(point);
      last = point;
    }
    last.down.push(items[to]);
    items[to].up.push(last);
    return points;
  });
  // Neighbours in order of the mean of theirs.
  layers.forEach(list => list.forEach((item, i) => { item.at = i - list.length / 2; }));
  for (let sweep = 0; sweep < 16; ++sweep) {
    const down = sweep % 2 === 0;
    for (const list of down ? layers : [...layers].reverse()) {
      for (const item of list) {
        const near = down ? item.up : item.down;
        item.want = near.length ? near.reduce((sum, other) => sum + other.at, 0) / near.length : item.at;
      }
      list.sort((a, b) => a.want - b.want);
      list.forEach((item, i) => { item.at = i - list.length / 2; });
    }
  }
  // Places as near as possible to the mean of their neighbours', in this order and without overlap.
  for (const list of layers) {
    let x = 0;
    for (const item of list) {
      item.x = x + item.width / 2;
      x += item.width + gapX;
    }
    for (const item of list)
      item.x -= (x - gapX) / 2;
  }
  for (let sweep = 0; sweep < 24; ++sweep) {
    const down = sweep % 2 === 0;
    for (const list of down ? layers : [...layers].reverse()) {
      const pools = [];
      let offset = 0;
      list.forEach((item, i) => {
        offset += i ? (list[i - 1].width + item.width) / 2 + gapX : 0;
        item.offset = offset;
        const near = down ? item.up : item.down;
        const want = near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : item.x;
        pools.push({sum: want - offset, items: [item]});
        while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).items.length > pools.at(-1).sum / pools.at(-1).items.length) {
          const last = pools.pop();
          pools.at(-1).sum += last.sum;
          pools.at(-1).items.push(...last.items);
        }
      });
      for (const pool of pools)
        for (const item of pool.items)
          item.x = pool.sum / pool.items.length + item.offset;
    }
  }
  let y = 0;
  for (const list of layers) {
    const height = Math.max(...list.map(item => item.height));
    for (const item of list)
      Object.assign(item, {y: y + height / 2, top: y, bottom: y + height});
    y += height + gapY;
  }
  const everything = layers.flat();
  if (everything.length === 0)
    return {centers: [], width: 0, height: 0, routes: []};
  const leftmost = Math.min(...everything.map(item => item.x - item.width / 2));
  const rightmost = Math.max(...everything.map(item => item.x + item.width / 2));
  everything.forEach(item => { item.x -= leftmost; });
  return {
    centers: items.map(({x, y}) => ({x, y})), width: rightmost - leftmost, height: Math.max(0, y - gapY),
    // Lines bend between layers alone, so that none crosses a box.
    routes: routes.map((points, i) => {
      const from = items[edges[i].from], to = items[edges[i].to];
      return [{x: from.x, y: from.bottom}, ...points.flatMap(({x, top, bottom}) => [{x, y: top}, {x, y: bottom}]), {x: to.x, y: to.top}];
    }),
  };
}

const shapeOf = type => type.replace(/^tensor<(.*)>$/, '$1');

/// The ops to draw and what they read; ops that are free are left out if asked, and edges go through them.
function visible(drawing, withFree) {
  const shown = [], numberOf = new Map();
  drawing.ops.forEach((op, i) => {
    if (withFree || !op.free) {
      numberOf.set(i, shown.length);
      shown.push(op);
    }
  });
  const into = drawing.ops.map(() => []);
  drawing.edges.forEach(edge => into[edge.to].push(edge));
  const edges = [], seen = new Set();
  function trace(edge, to, decision) {
    if (numberOf.has(edge.from)) {
      const from = numberOf.get(edge.from), key = from + ' ' + to + ' ' + edge.value;
      if (!seen.has(key)) {
        seen.add(key);
        const a = shown[from], b = shown[to];
        edges.push({...edge, from, to, decision, gone: a.region >= 0 && a.region === b.region});
      }
    } else {
      into[edge.from].forEach(next => trace(next, to, decision));
    }
  }
  drawing.edges.forEach(edge => numberOf.has(edge.to) && trace(edge, numberOf.get(edge.to), edge.decision));
  // Inputs that only hidden ops read would stand alone.
  return {ops: shown, edges};
}

function place(ops, edges, regionNames) {
  const regionCount = regionNames.length, regionName = region => regionNames[region];
  const sizes = ops.map(op => ({
    width: Math.max((op.label + ' ' + op.name).length * letterWidth, shapeOf(op.type).length * letterWidth * .88, 40) + 16,
    height: boxHeight,
  }));
  // Regions first, each by itself; then they are boxes among others. Values that come in or go out have a port in the frame.
  const members = Array.from({length: regionCount}, () => []), boxOf = [], boxes = [];
  ops.forEach((op, i) => op.region >= 0 && members[op.region].push(i));
  const regions = members.map((list, region) => {
    const numberOf = new Map(list.map((op, i) => [op, i])), inner = list.map(op => sizes[op]), lines = [], lineOf = new Map();
    const port = (key, pin) => {
      if (!numberOf.has(key)) {
        numberOf.set(key, inner.length);
        inner.push({width: 8, height: 0, pin});
      }
      return numberOf.get(key);
    };
    const line = (key, from, to) => {
      if (!lines.some(other => other.from === from && other.to === to))
        lines.push({from, to});
      lineOf.set(key, lines.findIndex(other => other.from === from && other.to === to));
    };
    edges.forEach((edge, i) => {
      const starts = ops[edge.from].region === region, ends = ops[edge.to].region === region;
      if (starts && ends)
        line('inside ' + i, numberOf.get(edge.from), numberOf.get(edge.to));
      else if (ends)
        line('in ' + i, port('in ' + edge.from, 'top'), numberOf.get(edge.to));
      else if (starts)
        line('out ' + i, numberOf.get(edge.from), port('out ' + edge.from, 'bottom'));
    });
    return {region, list, numberOf, lineOf, layout: layered(inner, lines)};
  });
  regions.forEach(({list, layout, region}) => {
    list.forEach(op => { boxOf[op] = boxes.length; });
    boxes.push({width: Math.max(layout.width, regionName(region).length * letterWidth) + 2 * regionPad, height: layout.height, region});
  });
  ops.forEach((op, i) => {
    if (op.region < 0) {
      boxOf[i] = boxes.length;
      boxes.push({...sizes[i], op: i});
    }
  });
  const outer = [], numberOf = new Map();
  edges.forEach(edge => {
    const from = boxOf[edge.from], to = boxOf[edge.to], key = from + ' ' + to;
    if (from !== to && !numberOf.has(key)) {
      numberOf.set(key, outer.length);
      outer.push({from, to});
    }
  });
  const whole = layered(boxes, outer), centers = [];
  boxes.forEach((box, i) => {
    if (box.op !== undefined)
      centers[box.op] = whole.centers[i];
  });
  const frames = regions.map(({list, layout, region}) => {
    const i = boxes.findIndex(box => box.region === region), {x, y} = whole.centers[i], {width, height} = boxes[i];
    const frame = {x: x - width / 2, y: y - height / 2, width, height};
    list.forEach((op, j) => { centers[op] = within(frame, layout, layout.centers[j]); });
    return frame;
  });
  const routes = edges.map((edge, i) => {
    const from = centers[edge.from], to = centers[edge.to], a = ops[edge.from].region, b = ops[edge.to].region;
    const start = {x: from.x, y: from.y + boxHeight / 2}, end = {x: to.x, y: to.y - boxHeight / 2};
    /// Points within a region, and its port.
    const inRegion = (region, kind, key) => {
      const {layout, lineOf, numberOf} = regions[region], points = layout.routes[lineOf.get(kind + ' ' + i)];
      const port = key === null ? [] : [layout.centers[numberOf.get(kind + ' ' + key)]];
      return (kind === 'out' ? [...points, ...port] : [...port, ...points]).map(point => within(frames[region], layout, point));
    };
    if (edge.gone)
      return [start, ...inRegion(a, 'inside', null), end];
    const out = a >= 0 ? inRegion(a, 'out', edge.from) : [], into = b >= 0 ? inRegion(b, 'in', edge.from) : [];
    // Between the boxes from port to port, not from middle to middle.
    const between = [...whole.routes[numberOf.get(boxOf[edge.from] + ' ' + boxOf[edge.to])]];
    between[0] = {...between[0], x: (out.at(-1) ?? start).x};
    between.push({...between.pop(), x: (into[0] ?? end).x});
    return [start, ...out, ...between, ...into, end];
  });
  return {sizes, centers, frames, routes, width: whole.width, height: whole.height};
}
/// A point of a region's own layout on the page.
const within = (frame, layout, {x, y}) => ({x: frame.x + (frame.width - layout.width) / 2 + x, y: frame.y + y});

function pathOf(points) {
  let path = `M${points[0].x.toFixed(1)} ${points[0].y.toFixed(1)}`;
  for (let i = 1; i < points.length; ++i) {
    const a = points[i - 1], b = points[i], middle = ((a.y + b.y) / 2).toFixed(1);
    if (a.x === b.x && a.y === b.y)
      continue;
    path += ` C${a.x.toFixed(1)} ${middle} ${b.x.toFixed(1)} ${middle} ${b.x.toFixed(1)} ${b.y.toFixed(1)}`;
  }
  return path;
}

const bytesText = text => {
  const value = evaluate(text, openDims);
  return /^\d+$/.test(text) ? `${group(value)} B` : `${text} B (${bytes(value)} at ${openText()})`;
};

/// What is said of an op and of an edge.
function opDetail(op, regionName) {
  return [h('p', {}, h('b', {}, op.label + ' ' + op.name), op.type ? ' : ' + op.type : '', op.loc ? ` at ${keyOf(op.loc)}` : ''),
          h('p', {class: 'dim'}, op.region >= 0 ? `in kernel ${regionName(op.region)}` : '',
            op.free ? ' — costs nothing in a kernel' : '', op.loc && op.label !== 'input' && op.label !== 'result' ? ' — click or Enter shows its lines in all levels' : '')];
}
function edgeDetail(edge, ops, decisions) {
  const from = ops[edge.from], to = ops[edge.to], said = decisions?.[edge.decision];
  const name = op => op.name || op.label;
  const out = [h('p', {}, h('b', {}, `${name(from)} → ${name(to)}`), `: ${edge.type}, ${bytesText(edge.bytes)}`)];
  if (!decisions)
    return out;
  out.push(h('p', {}, edge.gone ? 'In one kernel: the value does not go through memory' +
                                    (said?.stored ? ' for this reader; another one reads it from there.' : '.')
                                : 'Goes through memory.',
             said?.reason ? [' Two kernels ', h('code', {}, `[${said.reason.code}]`), `: ${said.reason.why}`,
                             said.reason.detail ? ` (${said.reason.detail})` : ''] : ''));
  if (said?.reason?.change)
    out.push(h('p', {}, `To change it: ${said.reason.change}`));
  if (said?.reason && said.resources)
    out.push(h('p', {class: 'dim'}, `As one it would have about ${said.resources.registers} registers a thread and ` +
                                    `${bytes(said.resources.shared)} of shared memory.`));
  return out;
}

function drawGraph(title, drawing, decisions, withFree, detail) {
  const {ops, edges} = visible(drawing, withFree);
  const regionName = region => kernelName(drawing.regions[region]);
  const {sizes, centers, frames, routes, width, height} = place(ops, edges, drawing.regions.map((_, region) => 'kernel ' + regionName(region)));
  const margin = 16, items = [];
  const item = (element, text, open) => {
    element.addEventListener('mouseenter', () => detail.replaceChildren(...text()));
    element.addEventListener('focus', () => detail.replaceChildren(...text()));
    element.addEventListener('click', () => { focusItem(items.indexOf(element)); open?.(); });
    element.open = open;
    items.push(element);
    return element;
  };
  const focusItem = i => {
    items.forEach(other => other.setAttribute('tabindex', -1));
    items[i].setAttribute('tabindex', 0);
    items[i].focus();
  };
  const drawnEdges = edges.map((edge, i) => {
    const path = pathOf(routes[i]), from = ops[edge.from], to = ops[edge.to];
    const kind = edge.gone ? 'gone' : 'memory';
    return {i: edge.to, element: item(s('g', {
      class: 'edge', role: 'img', 'data-kind': kind,
      'aria-label': `${from.name || from.label} to ${to.name || to.label}, ${edge.type}, ${edge.gone ? 'in one kernel' : 'through memory'}`,
    }, s('path', {class: 'hit', d: path}), s('path', {class: kind, d: path, 'marker-end': `url(#${kind}-head)`})),
      () => edgeDetail(edge, ops, decisions))};
  });
  const drawnOps = ops.map((op, i) => {
    const {x, y} = centers[i], {width} = sizes[i], key = keyOf(op.loc), isEnd = op.label === 'input' || op.label === 'result';
    return item(s('g', {class: 'op' + (isEnd ? ' end' : ''), role: 'img', 'data-key': isEnd ? null : key,
                        'aria-label': `${op.label} ${op.name}, ${op.type}`},
                  s('rect', {x: x - width / 2, y: y - boxHeight / 2, width, height: boxHeight, rx: 5}),
                  s('text', {x, y: y - 3, 'text-anchor': 'middle'}, op.label + (op.name ? ' ' + op.name : '')),
                  s('text', {x, y: y + 12, 'text-anchor': 'middle', class: 'small'}, shapeOf(op.type))),
                () => opDetail(op, regionName), key && !isEnd ? () => showInLevels(key) : null);
  });
  items.forEach((element, i) => element.setAttribute('tabindex', i === edges.length ? 0 : -1));
  const head = kind => s('marker', {id: `${kind}-head`, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 8, markerHeight: 8,
                                    markerUnits: 'userSpaceOnUse', orient: 'auto'},
                         s('path', {d: 'M0 0 L8 4 L0 8 z', fill: kind === 'memory' ? 'var(--memory)' : 'var(--dim)'}));
  const svg = s('svg', {
    role: 'group', 'aria-label': title, viewBox: `${-margin} ${-margin} ${width + 2 * margin} ${height + 2 * margin}`,
    onkeydown: event => {
      const at = items.indexOf(document.activeElement), step = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[event.key];
      if (step && at >= 0)
        focusItem((at + step + items.length) % items.length);
      else if (event.key === 'Enter' && at >= 0)
        items[at].open?.();
      else
        return;
      event.preventDefault();
    },
  }, s('defs', {}, head('memory'), head('gone')),
     frames.map((frame, region) => s('g', {class: 'region'}, s('rect', {...frame, rx: 9}),
                                     s('text', {x: frame.x + 10, y: frame.y + 16}, 'kernel ' + regionName(region)))),
     drawnEdges.map(({element}) => element), drawnOps);
  const full = {width: width + 2 * margin, height: height + 2 * margin};
  let zoom = 1;
  const canvas = h('div', {class: 'canvas'}, svg);
  const scale = value => {
    zoom = Math.max(.1, Math.min(2, value));
    svg.setAttribute('width', full.width * zoom);
    svg.setAttribute('height', full.height * zoom);
  };
  const fit = () => scale(Math.max(.45, Math.min(1, (canvas.clientWidth - 4) / full.width)));
  requestAnimationFrame(() => {
    fit();
    canvas.scrollLeft = (full.width * zoom - canvas.clientWidth) / 2;
  });
  const button = (text, label, action) => h('button', {type: 'button', 'aria-label': `${label} ${title}`, onclick: action}, text);
  return h('section', {class: 'drawing', 'data-drawing': title},
           h('div', {class: 'bar'}, h('h3', {}, title), h('span', {class: 'dim'}, `${plural(ops.filter(op => op.label !== 'input' && op.label !== 'result').length, 'op')}` +
             (drawing.regions.length ? ` in ${plural(drawing.regions.length, 'kernel')}` : '')),
             button('−', 'smaller:', () => scale(zoom / 1.25)), button('+', 'larger:', () => scale(zoom * 1.25)),
             button('Fit', 'fit to the width:', fit),
             button('Whole', 'show all of', () => scale(Math.min((canvas.clientWidth - 4) / full.width, (canvas.clientHeight - 4) / full.height)))),
           canvas);
}

let withFree = false;
function graphSection() {
  const detail = h('div', {class: 'detail', role: 'status'},
                   h('p', {class: 'dim'}, 'Point at a box or line, or move with the arrow keys, to see its type, its bytes and why.'));
  const drawings = h('div', {class: 'drawings'});
  const draw = () => {
    const before = only('before'), fusion = only('fusion');
    drawings.replaceChildren(...[
      before && drawGraph('Before fusion', before, null, withFree, detail),
      fusion ? drawGraph('After fusion', fusion.drawing, fusion.decisions, withFree, detail)
             : h('p', {class: 'dim'}, 'The compilation did not get as far as fusion.')].filter(Boolean));
  };
  draw();
  const sample = (kind, text) => h('span', {class: 'legend'}, s('svg', {width: 34, height: 10, 'aria-hidden': 'true', class: 'edge'},
                                                                s('path', {class: kind, d: 'M0 5 H34'})), text);
  return [h('div', {class: 'bar'},
            h('label', {}, h('input', {type: 'checkbox', checked: withFree, onchange: event => { withFree = event.target.checked; draw(); }}),
              ' constants, broadcasts and views too'),
            h('span', {class: 'edge'}, sample('memory', 'through memory'), sample('gone', 'stays in the kernel'))),
          drawings, detail];
}
