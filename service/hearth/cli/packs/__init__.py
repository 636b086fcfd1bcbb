"""The verb about packs."""
