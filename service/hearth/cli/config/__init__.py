"""`hearth config` and its verbs."""
