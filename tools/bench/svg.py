"""Grouped horizontal bars as SVG text, for light and dark pages. Needs nothing but Python."""

import html
import math

WIDTH, RIGHT = 980, 60
BAR, GAP, GROUP_GAP = 11, 2, 16
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

_STYLE = f"""<style>
  svg {{ color: #1f2328; }}
  @media (prefers-color-scheme: dark) {{ svg {{ color: #e6edf3; }} }}
  text {{ fill: currentColor; font-family: {FONT}; font-size: 12px; }}
  .title {{ font-size: 16px; font-weight: 600; }}
  .value {{ font-size: 10px; }}
  .grid {{ stroke: currentColor; stroke-opacity: 0.18; }}
  .one {{ stroke: currentColor; stroke-opacity: 0.65; }}
</style>"""


def _text(x, y, text, kind="", anchor="start"):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{html.escape(text)}</text>'


def _shown(value):
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.3g}"


def _line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


class _Axis:
    """Maps values to x from `left` on: linear from 0, or logarithmic where that is allowed and the values span more than a factor
    of 8."""

    def __init__(self, values, left, linear):
        low, high = min(values), max(values)
        self.left = left
        self.log = high > 8 * low and not linear
        if self.log:
            # Bars start below 1, so that the bar of the best is seen.
            self.low, self.high = math.log10(min(low, 1.0) / 2), math.log10(high * 1.15)
            decades = range(math.floor(self.low), math.ceil(self.high) + 1)
            ticks = [factor * 10.0**power for power in decades for factor in (1, 2, 5)]
            self.ticks = [tick for tick in ticks if self.low <= math.log10(tick) <= self.high]
        else:
            self.low, self.high = 0.0, high * 1.08
            step = next(step for step in (0.1, 0.2, 0.25, 0.5, 1, 2) if self.high / step <= 9 or step == 2)
            self.ticks = [step * i for i in range(int(self.high / step) + 1)]

    def x(self, value):
        place = math.log10(value) if self.log else value
        return self.left + (place - self.low) / (self.high - self.low) * (WIDTH - self.left - RIGHT)


def _legend(names, colors, left, y):
    """Rows of keys, and the height that they take."""
    parts, x, top = [], left, y
    for name in names:
        width = 28 + 7.1 * len(name)
        if x > left and x + width > WIDTH - 10:
            x, y = left, y + 18
        parts.append(f'<rect x="{x:.1f}" y="{y - 9}" width="11" height="11" rx="2" fill="{colors[name]}"/>')
        parts.append(_text(x + 16, y + 1, name))
        x += width
    return parts, y + 18 - top


def grouped_bars(title, axis_label, groups, colors, suffix="x", linear=False):
    """`groups` is {group: {series: value > 0}}, `colors` {series: color}; a series that a group lacks takes no room in it."""
    present = {name for bars in groups.values() for name in bars}
    left = max(215, 7 * max(map(len, groups)) + 10)  # Room for the longest label.
    axis = _Axis([value for bars in groups.values() for value in bars.values()], left, linear)
    parts = [_text(left, 26, title, "title")]
    legend, legend_height = _legend([name for name in colors if name in present], colors, left, 50)
    parts += legend
    top = 50 + legend_height + 6
    height = sum(len(bars) * (BAR + GAP) + GROUP_GAP for bars in groups.values())
    bottom = top + height
    for tick in axis.ticks:
        x = axis.x(tick)
        parts.append(_line(x, top, x, bottom, "one" if tick == 1 else "grid"))
        parts.append(_text(x, bottom + 16, f"{tick:.3g}{suffix}", anchor="middle"))
    parts.append(
        _text((left + WIDTH - RIGHT) / 2, bottom + 36, axis_label + (", logarithmic" if axis.log else ""), anchor="middle")
    )
    y, start = top + GROUP_GAP / 2, left if axis.log else axis.x(0)
    for group, bars in groups.items():
        middle = y + len(bars) * (BAR + GAP) / 2 + 4
        parts.append(_text(left - 10, middle, group, anchor="end"))
        for name, value in bars.items():
            end = axis.x(value)
            parts.append(
                f'<rect x="{start:.1f}" y="{y:.1f}" width="{max(1.0, end - start):.1f}" height="{BAR}" rx="1.5" '
                f'fill="{colors[name]}"><title>{html.escape(f"{group}, {name}: {_shown(value)}{suffix}")}</title></rect>'
            )
            parts.append(_text(end + 4, y + BAR - 1.5, f"{_shown(value)}{suffix}", "value"))
            y += BAR + GAP
        y += GROUP_GAP
    size = f'viewBox="0 0 {WIDTH} {bottom + 48:.0f}" width="{WIDTH}" height="{bottom + 48:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{html.escape(title)}">',
            _STYLE,
            *parts,
            "</svg>",
            "",
        ]
    )
