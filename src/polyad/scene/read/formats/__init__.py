"""One small module per file kind; each turns a path into a lazily read scene."""
