"""Tools of the pack `agents`, their schemas, and agents as their results have them."""
