"""Tests of the wire layer: bytes in, messages out."""
