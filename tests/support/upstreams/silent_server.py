"""A server that reads everything and never says a word. It ends with its stdin."""

import stdio

for _ in stdio.raw_lines():
    pass
