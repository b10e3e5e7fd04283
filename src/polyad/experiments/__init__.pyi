from .reproduction import NothingToRun as NothingToRun
from .reproduction import Reproduction as Reproduction
from .reproduction import reproduce as reproduce
from .settings import RunSettings as RunSettings
