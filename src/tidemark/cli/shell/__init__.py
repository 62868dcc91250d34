"""The shell: statements typed at a prompt, or read from a pipe, one after the other."""
