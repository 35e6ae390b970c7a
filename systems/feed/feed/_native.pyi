"""feed-core for Python (native/python). Each function releases the GIL once, for all its work.

Arrays are read in place by numpy.asarray(…) and CatBoost: read-only, no copy. Values are given either as a list (bytes
of one item each; None where the store had none), as fetched replies, or as one buffer of packed records of the present
version.
"""

from typing import Any, Final, TypeAlias, final

from numpy.typing import NDArray
from typing_extensions import Buffer

FEATURES: Final[list[str]]
"""Names of the columns, in order."""
RECORD_BYTES: Final[int]
"""Length of a packed record of the present version."""

_Values: TypeAlias = list[bytes] | list[bytes | None] | Fetched | Buffer
_Numbers: TypeAlias = Buffer | NDArray[Any]

@final
class Array:
    """Numbers behind the buffer protocol: float32 (n, 60) column-major; float64 (n,); uint32 (n,)."""

    @staticmethod
    def of(matrix: _Numbers) -> Array:
        """A copy of any float32 matrix, column-major. Cost: 0.2 ms for 3,000 x 60."""
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int) -> memoryview: ...

@final
class Asking:
    """Which records are asked of which shard: keys of a bucket in one MGET, all of a shard's in one write."""

    def __new__(cls, ids: list[int], shard_of_bucket: list[int], shards: int) -> Asking:
        """Cost: 0.3 ms for 3,000 ids. Raises ValueError: not a shard for each bucket."""
    def command(self, shard: int) -> bytes:
        """What is written to the shard."""
    def count(self, shard: int) -> int:
        """Values that it will answer."""

@final
class Replies:
    """A shard's answers, as they come in."""

    def __new__(cls, expected: int) -> Replies: ...
    def feed(self, data: bytes) -> int | None:
        """Takes what came. None: there is more to come; else all is there, and that many last bytes belong to others.

        Raises ConnectionError: the server refused; what follows cannot be told apart.
        """

@final
class Fetched:
    """Fetched records: values in the order of the ids that were asked for."""

    def __new__(cls, asking: Asking, replies: list[Replies | None]) -> Fetched:
        """`replies` by shard, None = it failed. Raises ValueError: replies that are not whole, or not of each shard."""

@final
class Matrix:
    """Features of items."""

    @property
    def columns(self) -> Array:
        """float32, (rows, 60), column-major: what CatBoost reads without a copy."""
    @property
    def ids(self) -> Array:
        """uint32, item of each row."""
    @property
    def places(self) -> Array:
        """uint32, which of the given values each row is: absent and unreadable ones have no row."""
    @property
    def unreadable(self) -> int:
        """Values that were no item."""
    def __len__(self) -> int:
        """Rows."""
    def ranked(self, scores: _Numbers) -> Ranking:
        """The order that float64 scores of the rows give, CatBoost's for example; no times but sort_ns."""

@final
class Ranking:
    """Items by falling score, equal scores by rising id. Each column is a copy, uint32 unless said otherwise."""

    @property
    def ids(self) -> Array: ...
    @property
    def scores(self) -> Array:
        """float64."""
    @property
    def places(self) -> Array:
        """Which of the given values each is."""
    @property
    def boosts(self) -> Array:
        """Level of the paid boost that is in force."""
    @property
    def sellers(self) -> Array: ...
    @property
    def categories(self) -> Array:
        """Index into record.CATEGORIES."""
    @property
    def unreadable(self) -> int:
        """Values that were no item."""
    @property
    def older(self) -> int:
        """Items that an older version stored: what they lack counts as not known."""
    @property
    def features_ns(self) -> int:
        """Time that reading items and computing features took, ns; likewise predict_ns and sort_ns."""
    @property
    def predict_ns(self) -> int: ...
    @property
    def sort_ns(self) -> int: ...
    def __len__(self) -> int: ...
    def arranged(self, lacking: list[int] = ...) -> Array:
        """uint32: ids as service/rules.py arranges them, each once; those of `lacking` rank last.

        Cost: 0.05 ms for 3,000.
        """

@final
class Forest:
    """A CatBoost model of one score: oblivious trees up to depth 6 over float features. May be shared by threads."""

    def __new__(cls, text: bytes) -> Forest:
        """From the file that `save_model(…, format="json")` writes. Cost: 20 ms for 500 trees.

        Raises ValueError: a model of another kind, or one whose leaves cannot be rounded within 1e-5.
        """
    def predict(self, columns: Array) -> Array:
        """float64 (rows,): within `error_bound` of CatBoost's. Cost: 0.5 ms for 3,000 rows, 500 trees."""
    def predict_plain(self, columns: Array) -> Array:
        """The same numbers, bit for bit, without AVX2."""
    def metadata(self, key: str) -> str | None:
        """What training stored with the model."""
    @property
    def features(self) -> int: ...
    @property
    def trees(self) -> int: ...
    @property
    def error_bound(self) -> float:
        """No score differs by more from the exact sum of leaves: proven when the model was read."""

def features(values: _Values, user: bytes, now_s: int) -> Matrix:
    """Features of packed records as `user` (User.packed()) sees them at a Unix time.

    Cost: 0.5 ms for 3,000. Raises ValueError: no user.
    """

def rank(values: _Values, user: bytes, now_s: int, forest: Forest) -> Ranking:
    """Features, scores and order in one call, without a matrix in between.

    Cost: 1.0 ms for 3,000.
    """

def ranked(ids: _Numbers, scores: _Numbers, *, sellers: _Numbers, categories: _Numbers, boosts: _Numbers) -> Ranking:
    """The order of items whose features others computed: columns of one length, uint32, scores float64.

    `places` are those in the columns. Raises ValueError: a column of another length.
    """

def candidates(bodies: list[bytes | None], seen: list[int], most: int) -> tuple[list[int], list[int]]:
    """What user.chosen makes of the models' answers (JSON, in the order of user.MODELS; None = no answer).

    Returns the ids, and which of the bodies were no answer. Cost: 0.4 ms for 4 x 1,100.
    """
