"""Hyperspectral scenes as ``xarray.DataArray`` with dims ``(y, x, band)``."""
