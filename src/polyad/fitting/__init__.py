"""Networks in, fitted networks out: pure functions, one per solver."""
