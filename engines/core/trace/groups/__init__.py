"""The groups of a step, one file each. A step fills those it has."""

from engines.core.trace.groups.branches import Branch
from engines.core.trace.groups.candidates import Candidates
from engines.core.trace.groups.choice import Decision
from engines.core.trace.groups.commits import Commits
from engines.core.trace.groups.intervals import Interval, bytes_held
from engines.core.trace.groups.media import Box, Media
from engines.core.trace.groups.memory import Memory
from engines.core.trace.groups.routing import Routing
from engines.core.trace.groups.scores import Lane
from engines.core.trace.groups.spans import Span
from engines.core.trace.groups.tree import GuessSource, Tree
