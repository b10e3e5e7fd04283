"""Side-by-side timings: ``python -m benchmarks`` writes docs/benchmarks.md."""
