"""What happens on a click, one file per subject. Everything here can be called by anyone who reaches the server, so
every value is checked again."""

from explorer.page.catalogue import Catalogue
from explorer.page.handlers.desk import Desk, Outputs
from explorer.page.handlers.endpoint import Endpoint
from explorer.page.handlers.keeping import Keeping
from explorer.page.handlers.running import STOP_PATIENCE, Running
from explorer.page.handlers.showing import Showing, Summing
from explorer.page.limits import Limits
from explorer.runs.gallery import Gallery


class Handlers(Desk):
    """The page's event handlers by subject, over one desk."""

    def __init__(self, gallery: Gallery, catalogue: Catalogue, limits: Limits) -> None:
        super().__init__(gallery, catalogue, limits)
        self.running, self.showing, self.keeping = Running(self), Showing(self), Keeping(self)
        self.summing, self.endpoint = Summing(self), Endpoint(self)


__all__ = ["STOP_PATIENCE", "Handlers", "Outputs"]
