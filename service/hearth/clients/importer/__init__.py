"""Import of servers from clients' files into Hearth's config."""
