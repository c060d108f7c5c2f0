"""What a method remembers."""

from engines.core.trace.base import Index, Record


class Memory(Record):
    """An entry of what a method remembers, as it stands after this step: behind a key of one or more tokens the tokens
    it expects, best first.

    `weights`: one number per token (a probability, a table's weight), or none where the memory only ranks. `read`: this
    step drafted from the entry; `written`: this step changed it. `source`: the part of the memory it lies in, such as
    matrix, corpus, adapted or 3-gram."""

    key: list[Index]
    tokens: list[Index]
    weights: list[float] = []
    read: bool = False
    written: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        if len(self.weights) not in (0, len(self.tokens)):
            raise ValueError(f"memory: {len(self.weights)} weights for {len(self.tokens)} tokens")
