"""Numbers on the command line, within bounds. What is none of them is called a number, not a range."""

import click


class Number(click.FloatRange):
    """Any number."""

    name = "number"


class WholeNumber(click.IntRange):
    """A whole one."""

    name = "whole number"
