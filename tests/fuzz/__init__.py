"""One file per parser: `check(data)` parses the bytes, and raises if the parser breaks its promise."""
