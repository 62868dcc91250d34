"""``python benchmarks/run.py …`` is ``tidemark bench …``; the code is in ``src/tidemark/cli/bench``."""

import sys

from tidemark.cli.main import app

if __name__ == "__main__":
    app(["bench", *sys.argv[1:]], prog_name="tidemark")
