"""The only package that knows the operating system. A raw OSError does not leave it where a sentence can be said."""
