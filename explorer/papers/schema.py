"""What a file `assets/papers/<id>.json` may hold. One file per paper, or per base that no paper of the list brought;
its name is the paper's id. An unknown field is an error, and so is a missing one."""

from typing import Any, Literal, get_args

import msgspec

from engines import Sentences, texts

Family = Literal[
    "baselines",
    "diffusion",
    "speculative",
    "self-speculative",
    "heads",
    "multi-token",
    "sampling",
    "search",
    "reasoning",
    "routing",
    "architecture",
    "system",
    "multimodal",
]
State = Literal["works", "partly", "planned"]
Basis = Literal["paper", "code", "abstract", "ours"]
FAMILIES: tuple[Family, ...] = get_args(Family)  # in the order of every list
STATES: tuple[State, ...] = get_args(State)
BASES: dict[Basis, str] = {  # what was read, by its word in a paper's file
    "paper": "the paper's text",
    "code": "public code and the abstract",
    "abstract": "the abstract and secondary sources",
    "ours": "a design of our own",
}


class Part(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all parts: an unknown field is an error."""


class LaneClaim(Part):
    """A score lies above or below a value at a place of the answer (0 is the first), in the step of the stop or another
    one."""

    lane: str
    at: int
    above: float | None = None
    below: float | None = None
    step: int | None = None


class ChoiceClaim(Part):
    """What the step decided, with the quantity on this side of a value."""

    chosen: str | None = None
    above: float | None = None
    below: float | None = None
    threshold: float | None = None
    switched: bool | None = None


class Check(Part):
    """What a stop claims of its step. Places count from the first token of the answer."""

    commits: int | None = None  # tokens written in this step
    causes: dict[str, int] = {}  # why, and how many of each
    wrote: dict[str, str] = {}  # place -> the piece written there in this step
    masked: list[int] = []  # places that still hold nothing after this step
    tokens: int | None = None  # tokens after this step
    text: str = ""  # is in the answer after this step
    drafted: int | None = None  # rows of the draft tree without its root
    accepted: int | None = None  # of them
    why: dict[str, int] = {}  # fates of rows, and how many of each
    spans: dict[str, list[int]] = {}  # kind -> [start, end) of the first span of that kind
    facts: dict[str, float] = {}
    choice: ChoiceClaim | None = None
    lanes: list[LaneClaim] = []
    note: str = ""  # is in the step's note
    fed: int | None = None  # positions computed in this step
    forwards: int | None = None  # so far
    steps: int | None = None  # of the whole run


class Stop(Part):
    """A step of the run, what is seen there, and what of it a program can check."""

    step: int
    say: str
    check: Check


class Lesson(Part):
    """One method, or a paper that is a study, by its id: what was seen, the idea with its formula, what to watch, stops
    in a recorded run, a question, a caveat, terms of the glossary. warning: a sentence that stands first, where the
    answer of the run is no good and the lesson is not about it."""

    order: int  # lessons are told by this number; leave gaps
    method: str
    trace: str
    problem: str
    idea: str
    formula: str
    watch: str
    stops: list[Stop]
    question: str
    answer: str
    caveat: str
    terms: list[str]
    warning: str = ""
    view: str = ""  # the part of the player to look at, by the name of its class; the token board if none is named


class Term(Part):
    """A word of the field in our own words."""

    term: str
    about: str
    see: list[str] = []
    also: list[str] = []  # other words for it, by which a search finds it


class Recording(Part):
    """A run of the gallery: what is run to record it, and what is said of it. `id` names its trace and its
    permalink. beside: the id of the run that it is held against, which opens with it, in the gallery and in a
    lesson. listed: false for one that only a scene shows, such as a stop of its lever."""

    id: str
    method: str
    model: str
    prompt: str
    title: str
    watch: str
    params: dict[str, Any] = {}
    seed: int = 0
    beside: str = ""
    listed: bool = True


class Published(Part):
    """A figure that the authors published: never measured here. where: abstract, table, figure or section."""

    figure: str
    what: str
    where: str


class Trial(Part):
    """What the contract's tests try a method with, where what all are tried with does not show it. model, prompts: in
    place of the example of its kind. params: with which a small model wavers, or branches less. values, beside: of a
    parameter, values that have an effect, and values of others with which it has one. lighter: module -> constants of
    it that make a run shorter."""

    model: str = ""
    prompts: list[str] = []
    params: dict[str, Any] = {}
    values: dict[str, list[Any]] = {}
    beside: dict[str, list[dict[str, Any]]] = {}
    lighter: dict[str, dict[str, Any]] = {}


class Seen(Part):
    """How well a picture tells the paper's idea by itself: 0 nothing special is visible, 1 numbers or text only, 2 it
    needs explaining, 3 self-explaining. seen: what people who had not drawn it, and were told nothing, said that they
    see, word by word. Kept for those who draw it again, and shown nowhere."""

    view: str
    score: Literal[0, 1, 2, 3]
    seen: list[str]
    date: str


class Paper(Part):
    """One paper, or a base. `methods`: registered slugs; `tools`: commands for what is no decoding method. `runs`: on
    which models. `basis`: what was read to write it. `missing`: what is not in. `watch`: what one sees of it.
    `purposes` of a base: what each of its methods is for. `says`: the sentences of its methods' declarations, which the
    registry puts into them. `words`: what people who search for it may type, beside its names and the terms of its
    lessons. `trains`: by method, what has to be trained for it, where its `needs` do not name a part. `translated`:
    those of its methods whose lesson and notes of steps no language may lack, since the opening, the first chips or
    most other papers lead to them."""

    name: str
    title: str
    family: Family
    state: State
    idea: str
    id: str = ""  # the name of the file; set when it is read
    arxiv: str = ""
    year: int = 0
    base: bool = False
    basis: Basis | None = None  # None: it does not say
    watch: str = ""
    methods: list[str] = []
    purposes: dict[str, str] = {}
    tools: list[str] = []
    runs: str = ""
    missing: str = ""
    departures: str = ""
    published: list[Published] = []
    lessons: list[Lesson] = []
    gallery: list[Recording] = []
    trials: dict[str, Trial] = {}  # by method
    picture: list[Seen] = []
    says: Sentences = Sentences()
    words: list[str] = []
    trains: dict[str, str] = {}
    translated: list[str] = []

    @property
    def address(self) -> str:
        """Where it can be read; empty for a base without a paper."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else ""


def parse(name: str, data: bytes) -> Paper:
    """The paper in a file of this name (without its ending). Raises ValueError with the place of the fault."""
    paper = msgspec.json.decode(texts.utf8(data), type=Paper)
    if paper.id not in ("", name):
        raise ValueError(f"it says the id '{paper.id}' but is named '{name}.json'")
    for field in () if paper.base else ("arxiv", "year"):
        if not getattr(paper, field):
            raise ValueError(f"Object missing required field `{field}`")
    if paper.base and (strange := set(paper.methods) ^ set(paper.purposes)):
        raise ValueError(f"`methods` and `purposes` do not name the same: {', '.join(sorted(strange))}")
    mentions = {
        "lessons": [lesson.method for lesson in paper.lessons if paper.methods or lesson.method != name],
        "trials": [*paper.trials],
        "says": [*paper.says.methods],
        "trains": [*paper.trains],
    }
    for field, method in ((field, method) for field, methods in mentions.items() for method in methods):
        if method not in paper.methods:
            raise ValueError(f"`{field}` tells of '{method}', which is not in `methods`")
    return msgspec.structs.replace(paper, id=name)
