"""Who the merchants are."""

from __future__ import annotations

from typing import Final

#: In the order in which orders are dealt out.
MERCHANTS: Final = ("arepa", "bento", "burger", "curry", "falafel", "noodle", "pizza", "salad", "sushi", "taco")
#: The one that is slow where one is.
SLOW: Final = "bento"
#: The one that takes orders over gRPC.
OVER_GRPC: Final = "sushi"
#: Its method: JSON both ways, so that nobody needs a compiler for its messages.
PLACE: Final = "/pos.Merchant/Place"
ASK: Final = "/pos.Merchant/Ask"
