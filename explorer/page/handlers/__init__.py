"""What happens on a click, one file per subject. Everything here can be called by anyone who reaches the server, so
every value is checked again."""

from explorer.page.handlers.desk import Outputs
from explorer.page.handlers.keeping import Keeping
from explorer.page.handlers.running import STOP_PATIENCE, Running
from explorer.page.handlers.showing import Showing


class Handlers(Running, Showing, Keeping):
    """The page's event handlers."""


__all__ = ["STOP_PATIENCE", "Handlers", "Outputs"]
