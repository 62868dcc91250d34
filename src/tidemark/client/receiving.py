"""What those do who take in messages of a source: refuse what is not for them, or not next."""

from __future__ import annotations

from tidemark.client.messages import Message
from tidemark.errors import TidemarkError


def begins(data: bytes, kind: str, what: str) -> Message:
    """The message that a holder or a local view begins with."""
    message = Message.of_bytes(data)
    if message.kind != kind or "definitions" not in message.more:
        raise TidemarkError("message", f"{what} begins with what the source ships first, not with {message.kind!r}")
    return message


def received(data: bytes, identity: int, tidemark: int, anew: str) -> Message:
    """The message, if it is for who has this identity and has come to this version.

    ``anew`` is the kind of message that can be taken in at any version, unless what it says is older.
    """
    message = Message.of_bytes(data)
    if message.identity != identity:
        raise TidemarkError(
            "message",
            "this message is for another view, or the view was redefined",
            hint="begin anew with what the view's source ships first",
        )
    is_here = message.kind == anew or message.since == tidemark
    if not is_here or message.version < tidemark:
        raise TidemarkError(
            "message",
            f"this message leads from version {message.since} to {message.version}, but version {tidemark} is here",
            hint=f"ask the source for what happened since version {tidemark}",
        )
    return message
