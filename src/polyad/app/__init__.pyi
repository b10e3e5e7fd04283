from .launch import Page as Page
from .launch import check as check
from .launch import prepare as prepare
from .launch import prepare_check as prepare_check
from .launch import serve as serve
from .launch import show as show
from .trainer import TrainSettings as TrainSettings
