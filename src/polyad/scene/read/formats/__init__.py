"""One small module per file kind; each turns a path into a lazily read scene."""

__all__: list[str] = []
