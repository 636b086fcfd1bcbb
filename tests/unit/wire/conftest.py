"""Hypothesis without a time limit per example: the machines that run this are shared and uneven."""

from hypothesis import HealthCheck, settings

settings.register_profile("wire", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wire")
