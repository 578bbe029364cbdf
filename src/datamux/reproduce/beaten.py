"""Series that do better than the paper's with the same backbone, layer by layer and unit by unit."""

from datamux.reproduce.series import Series

BEATEN: tuple[Series, ...] = ()
