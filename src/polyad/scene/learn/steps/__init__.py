"""Steps before and after the network, each usable alone, each done scene-wise.

Before it: whitening by the noise, edge-preserving filters. After it: guided filter, segments, label
propagation over the scene's graphs, calibration. A step says what it must see: ``halo`` pixels
around a tile, or the whole scene where ``halo`` is None.
"""
