"""THE schema of a trace; see `engines.core.trace.trace`."""

from engines.core.trace.base import Count, Detail, Index, Record, Small, TraceError, Unit
from engines.core.trace.groups import (
    Box,
    Branch,
    Candidates,
    Commits,
    Decision,
    GuessSource,
    Interval,
    Lane,
    Media,
    Memory,
    Routing,
    Span,
    Tree,
    bytes_held,
)
from engines.core.trace.header import (
    IMPORTED,
    SCHEMA_VERSION,
    WATCHED,
    Edit,
    End,
    Header,
    ModelRecord,
    Origin,
    Piece,
    TimedEdit,
)
from engines.core.trace.packed import Packed, pack, pack_exact
from engines.core.trace.reading import check_consistency
from engines.core.trace.records import (
    NumBytes,
    PackedTokens,
    Position,
    Probability,
    RecordInfo,
    TokenId,
    described,
    packed_record,
)
from engines.core.trace.step import GROUPS, Step, step_tokens
from engines.core.trace.trace import Trace, read_trace
