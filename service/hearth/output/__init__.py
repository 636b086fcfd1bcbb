"""Text for terminals and documents for programs."""
