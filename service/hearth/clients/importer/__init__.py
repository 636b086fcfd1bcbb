"""Servers in clients' files, turned into servers of Hearth's config."""
