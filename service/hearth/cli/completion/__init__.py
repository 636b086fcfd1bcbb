"""`hearth completion`."""
