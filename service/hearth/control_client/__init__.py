"""Client side of the control protocol: find a running daemon without starting one, and ask it."""
