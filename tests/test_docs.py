"""The documentation is true: its examples run, and print what the page says they print.

In README.md and under docs/, every ``python`` and ``sql`` block runs. The blocks of one page run in order:
Python in one namespace, SQL as scripts in one database, both in an empty working directory. A ``text`` block
right after a Python block is what that block must print. Results of queries without ORDER BY come in reverse, so that
no page shows an order that nobody asked for. Comments on the lines before a block direct it::

    <!-- not run: reason -->     the block is only shown
    <!-- engine: spark -->       the block needs Spark; the whole page then has the marker ``spark``

The examples in the docstrings of all modules run here as well.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from tidemark.session.database import Database
from tidemark.session.transaction import Transaction

ROOT = Path(__file__).parent.parent
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()]
PACKAGES = (ROOT / "src" / "tidemark", ROOT / "benchmarks" / "tidemark_bench")
MODULES = [
    "tests.bags",
    *sorted(
        ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        for package in PACKAGES
        for file in package.rglob("*.py")
        if file.name != "__main__.py"
    ),
]

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<language>[\w+-]*)")
COMMENT = re.compile(r"^\s*<!--\s*(?P<text>.*?)\s*-->\s*$")
ORDERED = re.compile(r"\bORDER\s+BY\b|^\s*(SHOW|EXPLAIN|WHY)\b", re.IGNORECASE)
DIRECTIVE = re.compile(r"not run: *\S.*|engine: *(spark|duckdb)")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the line of its fence, and the directives before it."""

    language: str
    text: str
    line: int
    last_line: int
    directives: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        shown_only = any(directive.startswith("not run") for directive in self.directives)
        return self.language in ("python", "sql") and not shown_only

    @property
    def engine(self) -> str:
        engines = [d.removeprefix("engine:").strip() for d in self.directives if d.startswith("engine")]
        return engines[0] if engines else "duckdb"


@dataclass
class Page:
    """A page of documentation as its blocks, with what each block must print."""

    name: str
    blocks: list[Block]
    prints: dict[int, str] = field(default_factory=dict)
    """From the line of a block to the text that must come out."""

    @property
    def needs_spark(self) -> bool:
        return any(block.runs and block.engine == "spark" for block in self.blocks)


def blocks_of(name: str, text: str) -> Iterator[Block]:
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        first, indent, ticks = at, len(opening["indent"]), opening["ticks"]
        at += 1
        while at < len(lines) and lines[at].strip() != ticks:
            at += 1
        if at == len(lines):
            raise ValueError(f"{name}:{first + 1}: this block is never closed")
        body = "".join(line.removeprefix(" " * indent) + "\n" for line in lines[first + 1 : at])
        yield Block(opening["language"], body, first + 1, at + 1, tuple(directives_above(name, lines, first)))
        at += 1


def directives_above(name: str, lines: list[str], fence: int) -> Iterator[str]:
    """The comments on the lines before a fence. One that looks like a directive but is none is an error."""
    at = fence - 1
    while at >= 0 and (comment := COMMENT.match(lines[at])):
        if DIRECTIVE.fullmatch(comment["text"]):
            yield comment["text"]
        elif comment["text"].startswith(("not run", "engine")):
            raise ValueError(f"{name}:{at + 1}: write '<!-- not run: reason -->' or '<!-- engine: spark -->'")
        at -= 1


def read_page(name: str, text: str) -> Page:
    page = Page(name, list(blocks_of(name, text)))
    lines = text.splitlines()
    for block, follower in pairwise(page.blocks):
        between = lines[block.last_line : follower.line - 1]
        if follower.language != "text" or any(line.strip() for line in between) or not block.runs:
            continue
        if block.language == "sql":
            raise ValueError(f"{name}:{follower.line}: only python blocks print; use one to show this")
        page.prints[block.line] = follower.text
    return page


def run_page(page: Page) -> None:
    """Run the blocks of a page in order, in the current working directory."""
    module = ModuleType("page")
    databases: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        # Dataclasses look their module up by name.
        stack.callback(sys.modules.pop, "page", None)
        sys.modules["page"] = module
        for block in page.blocks:
            if block.runs and block.language == "python":
                check_output(page, block, run_python(page, block, module))
            elif block.runs:
                if block.engine not in databases:
                    databases[block.engine] = stack.enter_context(connect(block.engine))
                databases[block.engine].execute(block.text)


def run_python(page: Page, block: Block, module: ModuleType) -> str:
    # The empty lines make a traceback point to the line of the page.
    code = compile("\n" * block.line + block.text, page.name, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, module.__dict__)
    return output.getvalue()


def check_output(page: Page, block: Block, output: str) -> None:
    if block.line in page.prints:
        assert tidy(output) == tidy(page.prints[block.line]), f"{page.name}:{block.line} does not print what it says"


def tidy(text: str) -> list[str]:
    """The lines without trailing whitespace, and without empty lines at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def connect(engine: str) -> Any:
    return importlib.import_module("tidemark").connect(engine)


def parameter(path: Path) -> Any:
    page = read_page(str(path.relative_to(ROOT)), path.read_text())
    return pytest.param(page, id=page.name, marks=[pytest.mark.spark] if page.needs_spark else [])


@pytest.mark.parametrize("page", [parameter(path) for path in PAGES])
def test_the_examples_of_a_page_hold(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if page.needs_spark:
        request.getfixturevalue("spark")
    for holder in (Database, Transaction):
        for name in ("query", "execute"):
            monkeypatch.setattr(holder, name, without_an_order(getattr(holder, name)))
    monkeypatch.chdir(tmp_path)
    run_page(page)


def without_an_order(run: Callable[..., pa.Table | None]) -> Callable[..., pa.Table | None]:
    """Answer as an engine may that owes no order: rows come the other way round unless the text orders them."""

    def reversed_unless_ordered(self: Any, sql: str, *arguments: Any, **named: Any) -> pa.Table | None:
        result = run(self, sql, *arguments, **named)
        if result is None or ORDERED.search(sql):
            return result
        return result.take(pa.array(reversed(range(result.num_rows)), pa.int64()))

    return reversed_unless_ordered


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.spark] if name.startswith("tidemark.engines.spark") else [])
        for name in MODULES
    ],
)
def test_the_examples_in_the_docstrings_of_a_module_hold(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    module = importlib.import_module(name)
    examples = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    if examples and name.startswith("tidemark.engines.spark"):
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    for test in examples:
        runner.run(test, out=report.write)
    assert not runner.summarize(verbose=False).failed, report.getvalue()


LINKED = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:)(?P<file>[^)#\s]*)#(?P<anchor>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<text>.+?) *$")


def prose_of(text: str) -> list[str]:
    """The lines of a page outside its fenced blocks."""
    fenced = {line for block in blocks_of("page", text) for line in range(block.line - 1, block.last_line)}
    return [line for number, line in enumerate(text.splitlines()) if number not in fenced]


def anchors_of(text: str) -> set[str]:
    """What can stand behind the # of a link to a page: its headings as GitHub writes them."""
    headings = [found["text"] for line in prose_of(text) if (found := HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_to_no_heading(page: Path) -> list[str]:
    """The links of a page that name a heading which the page that they lead to does not have."""
    links = [link for line in prose_of(page.read_text()) for link in LINK.finditer(line)]
    targets = [(page.parent / link["file"] if link["file"] else page, link["anchor"]) for link in links]
    return [f"{target.name}#{anchor}" for target, anchor in targets if anchor not in anchors_of(target.read_text())]


@pytest.mark.parametrize("page", LINKED, ids=[str(page.relative_to(ROOT)) for page in LINKED])
def test_links_to_headings_lead_to_one(page: Path) -> None:
    assert not links_to_no_heading(page)


class TestThisReader:
    """What reads and runs the pages can itself fail, so it is tested with pages that are wrong."""

    GOOD = "```python\nx = 1\n```\nthen\n```python\nprint(x)\n```\n\n```text\n1  \n```\n"

    def test_blocks_share_a_namespace_and_print_what_the_page_says(self) -> None:
        run_page(read_page("good.md", self.GOOD))

    def test_a_page_that_says_something_else_fails(self) -> None:
        with pytest.raises(AssertionError, match=r"bad\.md:5 does not print what it says"):
            run_page(read_page("bad.md", self.GOOD.replace("1  ", "2")))

    def test_a_block_that_raises_fails(self) -> None:
        with pytest.raises(ZeroDivisionError):
            run_page(read_page("bad.md", "```python\n1 / 0\n```\n"))

    def test_text_that_does_not_follow_immediately_is_not_compared(self) -> None:
        assert not read_page("page.md", "```python\n```\nprose\n```text\n2\n```\n").prints

    def test_a_block_is_left_out_only_with_a_reason(self) -> None:
        run_page(read_page("page.md", "<!-- not run: it would never end -->\n```python\n1 / 0\n```\n"))
        with pytest.raises(ValueError, match=r"page\.md:1: write '<!-- not run: reason -->'"):
            read_page("page.md", "<!-- not run -->\n```python\n1 / 0\n```\n")

    def test_the_comment_must_stand_directly_before_the_block(self) -> None:
        (block,) = read_page("page.md", "<!-- not run: reason -->\nprose\n```python\n```\n").blocks
        assert block.runs

    def test_a_block_for_spark_marks_the_page(self) -> None:
        assert read_page("page.md", "<!-- engine: spark -->\n```sql\nSELECT 1\n```\n").needs_spark
        assert not read_page("page.md", "```sql\nSELECT 1\n```\n").needs_spark

    def test_a_block_inside_a_list_loses_its_indent(self) -> None:
        (block,) = read_page("page.md", "1. do\n\n   ```python\n   if True:\n       pass\n   ```\n").blocks
        assert block.text == "if True:\n    pass\n"

    def test_other_languages_and_fences_within_fences_do_not_run(self) -> None:
        page = read_page("page.md", "````text\n```python\n1 / 0\n```\n````\n```console\n$ ls\n```\n")
        assert [block.runs for block in page.blocks] == [False, False]

    def test_a_block_that_is_never_closed_is_an_error(self) -> None:
        with pytest.raises(ValueError, match=r"page\.md:1: this block is never closed"):
            read_page("page.md", "```python\n")

    def test_a_link_to_a_heading_that_is_not_there_is_found(self, tmp_path: Path) -> None:
        page, other = tmp_path / "page.md", tmp_path / "other.md"
        other.write_text("# The `log`, and more\n```text\n# gone\n```\n")
        page.write_text("# Here\n[a](#here) [b](other.md#the-log-and-more) [c](other.md) [d](https://example.org#x)\n")
        assert not links_to_no_heading(page)
        page.write_text("[a](#here) [b](other.md#gone)\n```text\n[c](other.md#gone)\n```\n")
        assert links_to_no_heading(page) == ["page.md#here", "other.md#gone"]
