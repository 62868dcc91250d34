"""Views at the client under the clock: what is shipped to whom, in bytes, and what it takes both sides."""
