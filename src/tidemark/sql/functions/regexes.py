r"""Regular expressions as they are written in SQL, made into a form that every engine reads alike.

PostgreSQL, RE2 (DuckDB), Java (Spark) and Python share most of the syntax and differ in the details: what ``.``, ``$``,
``\s`` and ``\w`` match, whether case is folded beyond ASCII, what ``[[:alpha:]]`` is. Here a pattern is parsed, and
written anew with classes spelled out and without flags. What has no one meaning is refused.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import Final

from tidemark.errors import TidemarkError

_DIGITS: Final = "0-9"
_WORD: Final = "0-9A-Za-z_"
_SPACE: Final = "\t\n\x0b\f\r "
_NAMED: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": "\t ",
    "digit": _DIGITS,
    "lower": "a-z",
    "punct": "".join("\\" + letter for letter in string.punctuation),
    "space": _SPACE,
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_SHORT: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\x0b"}
MOST_REPEATS: Final = 255


@dataclass
class Regex:
    """A pattern in the common form, and what one must know to use it.

    ``empty``: it can match the empty text. ``groups``: how many parentheses it has. ``sure``: those that take part in
    every match.
    """

    text: str
    empty: bool
    groups: int = 0
    sure: frozenset[int] = field(default_factory=frozenset)


def parse(pattern: str, *, fold_case: bool = False) -> Regex:
    r"""
    >>> parse(r"^a.\d+$").text
    '^a(?s:.)[0-9]+\\z'
    >>> parse("ab", fold_case=True).text
    '[aA][bB]'
    """
    parser = _Parser(pattern, fold_case)
    text, empty, sure = parser.alternatives()
    if parser.place < len(pattern):
        raise _refused(pattern, "a closing parenthesis without an opening one")
    return Regex(text, empty, parser.groups, sure)


def similar_to(pattern: str, escape: str = "\\") -> Regex:
    r"""The pattern of SIMILAR TO: ``%`` and ``_`` as in LIKE, the rest as in regular expressions, for the whole text.

    >>> similar_to("a%|b_").text
    '^(?:a(?s:.)*|b(?s:.))\\z'
    """
    result: list[str] = []
    letters = iter(pattern)
    in_class = False
    for letter in letters:
        if letter == escape:
            following = next(letters, None)
            if following is None:
                raise _refused(pattern, "it ends with its escape character")
            result.append("\\" + following if not following.isalnum() else following)
        elif in_class:
            in_class = letter != "]"
            result.append(letter)
        elif letter == "[":
            in_class = True
            result.append(letter)
        else:
            plain = {"%": ".*", "_": ".", ".": r"\.", "^": r"\^", "$": r"\$", "\\": r"\\"}
            result.append(plain.get(letter, letter))
    inner = parse("".join(result))
    return Regex(rf"^(?:{inner.text})\z", inner.empty, inner.groups, inner.sure)


def replacement(text: str, regex: Regex, first_group: int = 0) -> tuple[str, str]:
    r"""A replacement in RE2's words and in Java's: ``\1`` … are groups, ``\&`` is the whole match, ``\\`` a backslash.
    In Java's words the groups are counted from ``first_group``, which is the whole match.

    >>> replacement(r"<\1\&$>", parse("(a)"))
    ('<\\1\\0$>', '<$1$0\\$>')
    """
    ours: list[str] = []
    java: list[str] = []
    letters = iter(text)
    for letter in letters:
        if letter != "\\":
            ours.append(letter)
            java.append("\\$" if letter == "$" else letter)
            continue
        following = next(letters, "\\")
        if following == "\\":
            ours.append("\\\\")
            java.append("\\\\")
        elif following == "&" or (following.isdigit() and 1 <= int(following) <= regex.groups):
            group = "0" if following == "&" else following
            ours.append("\\" + group)
            # Java would read a digit that follows as part of the group's number; braces do not serve numbers.
            java.append(f"${int(group) + first_group}")
        else:
            raise TidemarkError("unsupported", f"the replacement {text!r} names a group that the pattern does not have")
    for place, part in enumerate(java[:-1]):
        if part.startswith("$") and java[place + 1][0].isdigit():
            raise TidemarkError("unsupported", "a digit after a group in a replacement is not supported")
    return "".join(ours), "".join(java)


class _Parser:
    """Recursive descent; each method gives the new text, whether it can match nothing, and the groups it is sure of."""

    def __init__(self, pattern: str, fold_case: bool) -> None:
        self.pattern, self.fold_case = pattern, fold_case
        self.place = self.groups = 0

    def alternatives(self) -> tuple[str, bool, frozenset[int]]:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        sure = branches[0][2] if len(branches) == 1 else frozenset()
        return "|".join(text for text, _, _ in branches), any(empty for _, empty, _ in branches), sure

    def _sequence(self) -> tuple[str, bool, frozenset[int]]:
        text, empty, sure = "", True, frozenset[int]()
        while self.place < len(self.pattern) and self._peek() not in "|)":
            part, part_empty, part_sure, repeatable = self._atom()
            part, part_empty, part_sure = self._repeated(part, part_empty, part_sure, repeatable)
            text, empty, sure = text + part, empty and part_empty, sure | part_sure
        return text, empty, sure

    def _atom(self) -> tuple[str, bool, frozenset[int], bool]:
        letter = self._next()
        none = frozenset[int]()
        match letter:
            case "(":
                return (*self._group(), True)
            case "[":
                return self._class(), False, none, True
            case ".":
                return "(?s:.)", False, none, True
            case "^":
                return "^", True, none, False
            case "$":
                return r"\z", True, none, False
            case "\\":
                return self._escape(), False, none, True
            case "*" | "+" | "?" | "{":
                raise self._refuse(f"nothing stands before {letter!r}; write \\{letter} for the character")
        return self._literal(letter), False, none, True

    def _group(self) -> tuple[str, bool, frozenset[int]]:
        number = 0
        if self._take("?"):
            if not self._take(":"):
                raise self._refuse("look-around and flags within a pattern are not supported")
        else:
            self.groups += 1
            number = self.groups
        text, empty, sure = self.alternatives()
        if not self._take(")"):
            raise self._refuse("a parenthesis is not closed")
        return (f"({text})", empty, sure | {number}) if number else (f"(?:{text})", empty, sure)

    def _repeated(
        self, text: str, empty: bool, sure: frozenset[int], repeatable: bool
    ) -> tuple[str, bool, frozenset[int]]:
        least, sign = 1, ""
        if self._take("*"):
            least, sign = 0, "*"
        elif self._take("+"):
            sign = "+"
        elif self._take("?"):
            least, sign = 0, "?"
        elif self._take("{"):
            least, sign = self._bounds()
        if not sign:
            return text, empty, sure
        if not repeatable:
            raise self._refuse("an anchor cannot be repeated")
        if empty:
            raise self._refuse("a part that can match nothing cannot be repeated")
        if self._take("?"):
            raise self._refuse("lazy repetition is not supported: PostgreSQL and the engines choose differently")
        if self.place < len(self.pattern) and self._peek() in "*+{":
            raise self._refuse("a repetition cannot be repeated")
        return text + sign, least == 0, sure if least else frozenset()

    def _bounds(self) -> tuple[int, str]:
        end = self.pattern.find("}", self.place)
        inner = self.pattern[self.place : end] if end >= 0 else ""
        least, comma, most = inner.partition(",")
        if not least.isdigit() or (most and not most.isdigit()):
            raise self._refuse("repetitions are written {m}, {m,} or {m,n}")
        self.place = end + 1
        low = int(least)
        high = int(most) if most else (MOST_REPEATS if comma else low)
        if not low <= high <= MOST_REPEATS or high == 0:
            raise self._refuse(f"a part is repeated 1 to {MOST_REPEATS} times")
        return low, "{" + inner + "}"

    def _literal(self, letter: str) -> str:
        if self.fold_case:
            return _folded(letter, self)
        return _quoted(letter)

    def _escape(self) -> str:
        letter = self._next("it ends with a backslash")
        if letter in _SHORT:
            return f"[{_SHORT[letter]}]"
        if letter.lower() in _SHORT:
            return f"[^{_SHORT[letter.lower()]}]"
        return self._literal(self._escaped(letter))

    def _escaped(self, letter: str) -> str:
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter.isascii() and letter.isalnum():
            raise self._refuse(f"\\{letter} is not supported; \\d, \\s, \\w, \\n and \\t are")
        return letter

    def _class(self) -> str:
        """The characters of a class, one by one or as ranges; ``]`` may stand first."""
        negated = "^" if self._take("^") else ""
        members: list[str] = []
        first = True
        while first or self._peek("a class is not closed") != "]":
            first = False
            if self.pattern.startswith("[:", self.place):
                members.append(self._named_class())
                continue
            low = self._member()
            if len(low) > 1:  # a short form such as \d
                members.append(low)
                continue
            following = self.pattern[self.place : self.place + 2]
            if following[:1] == "-" and following[1:] not in ("]", ""):
                self.place += 1
                members.append(self._range(low, self._member()))
            else:
                members.append(self._class_letter(low))
        self._next()
        return f"[{negated}{''.join(members)}]"

    def _member(self) -> str:
        letter = self._next("a class is not closed")
        if letter == "[":
            if self.pattern[self.place : self.place + 1] in (".", "="):
                raise self._refuse("collating elements are not supported")
            return letter
        if letter != "\\":
            return letter
        letter = self._next("it ends with a backslash")
        return _SHORT[letter] if letter in _SHORT else self._escaped(letter)

    def _class_letter(self, letter: str) -> str:
        pair = _pair(letter) if self.fold_case else letter
        return "".join(_quoted(one) for one in pair)

    def _range(self, low: str, high: str) -> str:
        if len(high) > 1 or low > high:
            raise self._refuse("a range of a class goes from a lower to a higher character")
        text = f"{_quoted(low)}-{_quoted(high)}"
        if not self.fold_case or not (_has_letters(low, high)):
            return text
        if not (low.isascii() and high.isascii()):
            raise self._refuse("a range beyond ASCII has no one meaning when case is ignored")
        letters = {chr(code) for code in range(ord(low), ord(high) + 1)}
        others = sorted(letter.swapcase() for letter in letters if letter.isalpha())
        return text + "".join(others)

    def _named_class(self) -> str:
        end = self.pattern.find(":]", self.place)
        name = self.pattern[self.place + 2 : end] if end >= 0 else ""
        if name not in _NAMED:
            raise self._refuse(f"[:{name}:] is not supported; {', '.join(_NAMED)} are")
        self.place = end + 2
        return _NAMED["alpha"] if self.fold_case and name in ("lower", "upper") else _NAMED[name]

    def _peek(self, missing: str = "it ends too early") -> str:
        if self.place >= len(self.pattern):
            raise self._refuse(missing)
        return self.pattern[self.place]

    def _next(self, missing: str = "it ends too early") -> str:
        letter = self._peek(missing)
        self.place += 1
        return letter

    def _take(self, letter: str) -> bool:
        taken = self.pattern[self.place : self.place + 1] == letter
        self.place += taken
        return taken

    def _refuse(self, reason: str) -> TidemarkError:
        return _refused(self.pattern, reason)


def _has_letters(low: str, high: str) -> bool:
    return not high.isascii() or any(chr(code).isalpha() for code in range(ord(low), ord(high) + 1))


def _pair(letter: str) -> str:
    """A letter in both cases."""
    others = {letter, letter.lower(), letter.upper()}
    return "".join(sorted((one for one in others if len(one) == 1), key=lambda one: (one != letter, one)))


def _folded(letter: str, parser: _Parser) -> str:
    pair = _pair(letter)
    return _quoted(letter) if len(pair) == 1 else f"[{pair}]"


def _quoted(letter: str) -> str:
    return "\\" + letter if letter in string.punctuation and letter != "_" else letter


def _refused(pattern: str, reason: str) -> TidemarkError:
    return TidemarkError(
        "unsupported",
        f"the regular expression {pattern!r}: {reason}",
        hint="docs/reference/functions.md says which ones mean the same on every engine",
    )
