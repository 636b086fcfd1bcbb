"""A server that reads everything and never says a word. It ends with its stdin."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import stdio

for _ in stdio.raw_lines():
    pass
