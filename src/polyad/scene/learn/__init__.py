"""From labeled pixels to a model: samples, protocols, presets, the model and its file."""
