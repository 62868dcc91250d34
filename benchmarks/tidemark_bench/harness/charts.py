"""Charts with logarithmic axes, as one SVG file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH, HEIGHT = 520, 340
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 36, 46
COLOURS: Final = ("#0b6e99", "#c4541a", "#3a7d44", "#7b4b94", "#a8842c", "#444444")
DASHES: Final = {"Tidemark": "", "by hand": "6 3", "recompute": "2 3"}


@dataclass(frozen=True)
class Series:
    name: str
    kind: str
    points: tuple[tuple[float, float], ...]
    colour: str


@dataclass(frozen=True)
class Chart:
    title: str
    across: str
    series: tuple[Series, ...]


def drawing(charts: Sequence[Chart]) -> str:
    """Some charts beside each other."""
    columns = 2
    rows = -(-len(charts) // columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * columns}" height="{HEIGHT * rows}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for position, chart in enumerate(charts):
        across, down = position % columns * WIDTH, position // columns * HEIGHT
        parts += [f'<g transform="translate({across},{down})">', *_drawn(chart), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _drawn(chart: Chart) -> Iterator[str]:
    shown = [series for series in chart.series if series.points]
    xs = _decades([x for series in shown for x, _ in series.points])
    ys = _decades([y for series in shown for _, y in series.points])
    yield f'<text x="{LEFT}" y="20" font-size="13" font-weight="bold">{escape(chart.title)}</text>'
    for exponent in range(xs[0], xs[1] + 1):
        x = _x(10.0**exponent, xs)
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{10**exponent:,}</text>'
    for exponent in range(ys[0], ys[1] + 1):
        y = _y(10.0**exponent, ys)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{10.0**exponent:,g} ms</text>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(chart.across)}</text>'
    for position, series in enumerate(shown):
        yield from _line(series, xs, ys)
        y = TOP + 8 + 15 * position
        style = f'stroke="{series.colour}" stroke-width="2" stroke-dasharray="{DASHES[series.kind]}"'
        yield f'<line x1="{WIDTH - RIGHT + 10}" y1="{y}" x2="{WIDTH - RIGHT + 32}" y2="{y}" {style}/>'
        yield f'<text x="{WIDTH - RIGHT + 36}" y="{y + 4}">{escape(series.name)}</text>'


def _line(series: Series, xs: tuple[int, int], ys: tuple[int, int]) -> Iterator[str]:
    places = [(_x(x, xs), _y(y, ys)) for x, y in series.points]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    style = f'stroke="{series.colour}" stroke-width="2" stroke-dasharray="{DASHES[series.kind]}"'
    yield f'<polyline points="{joined}" fill="none" {style}/>'
    for x, y in places:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{series.colour}"/>'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around the values."""
    low = math.floor(math.log10(min(values, default=1.0)))
    return low, max(low + 1, math.ceil(math.log10(max(values, default=10.0))))


def _x(value: float, decades: tuple[int, int]) -> float:
    return LEFT + (math.log10(value) - decades[0]) / (decades[1] - decades[0]) * (WIDTH - LEFT - RIGHT)


def _y(value: float, decades: tuple[int, int]) -> float:
    height = HEIGHT - TOP - BOTTOM
    return TOP + height - (math.log10(value) - decades[0]) / (decades[1] - decades[0]) * height
