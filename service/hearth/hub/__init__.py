"""Sessions, the owner, routing and the catalogue: who is there, what is offered, and whose answer this is."""
