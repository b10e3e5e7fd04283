from .check_launch import CheckPage as CheckPage
from .check_launch import check as check
from .check_launch import prepare_check as prepare_check
from .fits import Settings as Settings
from .launch import Page as Page
from .launch import prepare as prepare
from .launch import serve as serve
from .launch import show as show
