"""Steps before and after the network, each usable alone, each done scene-wise.

Before it: whitening by the noise, fusion of bands, edge-preserving filters, profiles as an extra
mode. After it: guided filter, segments, propagation over the scene's graph, calibration. A step
says what it must see: ``halo`` pixels round a tile, or the whole scene where ``halo`` is None.
"""
