from .blocks import map_lazy as map_lazy
from .cluster import open_cluster as open_cluster
from .finished import BrokenLedgerWarning as BrokenLedgerWarning
from .maps import MapSummary as MapSummary
from .maps import map_files as map_files
from .runs import reproduce_on as reproduce_on
