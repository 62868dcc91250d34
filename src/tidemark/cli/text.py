"""Words and numbers as the command line writes them."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters written as escapes: data must not steer the terminal.

    >>> printable("two\\nlines, \\x1b[31mred")
    'two\\\\nlines, \\\\x1b[31mred'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines; a tab becomes one blank, so that what stands below it stays in place."""
    return "\n".join(printable(line.replace("\t", " ")) for line in text.split("\n"))


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(milliseconds: float) -> str:
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:.1f} s"


def size(number: int) -> str:
    """A number of bytes as people read it.

    >>> size(999), size(1_260_000), size(3 * 2**30)
    ('999 bytes', '1.2 MiB', '3.0 GiB')
    """
    for power, unit in enumerate(("KiB", "MiB", "GiB"), start=1):
        if 1024**power <= number < 1024 ** (power + 1) or (unit == "GiB" and number >= 1024**3):
            return f"{number / 1024**power:.1f} {unit}"
    return counted(number, "byte")
