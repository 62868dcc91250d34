"""``python -m tidemark.cli`` is the command ``tidemark``."""

from tidemark.cli.main import app

app(prog_name="tidemark")
