"""Operating system layer, the only package that knows the system.

No raw OSError leaves it where a sentence can explain the error.
"""
