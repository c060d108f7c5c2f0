"""The process in which chat templates are rendered: they come with checkpoints, so a stranger wrote them. Questions as
lines of JSON in, {template, messages, given}; answers out, {text} or {refused}. Started by `templates`;
arguments: a folder, then those that hold jinja2 and markupsafe. What a template can use is what transformers offers."""

import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

MEMORY = 1 << 30  # bytes that the process may ask for, where the system can limit it
LONGEST = 5_000_000  # characters that a template may make of a prompt


def main(_: str, *homes: str) -> None:
    """Answer until the input ends."""
    standard = list(sys.path)
    sys.path[:0] = homes
    render = _renderer()
    sys.path[:] = standard
    _limit()
    print(flush=True)  # ready
    for line in sys.stdin:
        try:
            text = render(**json.loads(line))
            answer = {"text": text} if len(text) <= LONGEST else {"refused": f"it makes {len(text):,} characters of it"}
        except Exception as error:  # whatever its author wrote
            answer = {"refused": str(error)[:300] or type(error).__name__}
        print(json.dumps(answer), flush=True)


def _renderer() -> Callable[..., str]:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
    import jinja2.utils

    class Generation(jinja2.ext.Extension):
        """Marks what an assistant writes, which is of use to training alone."""

        tags: ClassVar = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class Namespace(jinja2.utils.Namespace):
        """Without names that begin with an underscore."""

        def __init__(*given: Any, **named: Any) -> None:
            values = dict(*given[1:], **named)
            for name in values:
                check(name)
            jinja2.utils.Namespace.__init__(given[0], values)

        def __setitem__(self, name: str, value: Any) -> None:
            check(name)
            super().__setitem__(name, value)

    def check(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace has no {name!r}")

    def refuse(message: object) -> None:
        raise jinja2.exceptions.TemplateError(str(message))

    def tojson(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, **more: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, **more)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {
        "raise_exception": refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": lambda *given, **named: dict(*given, **named),
        "namespace": Namespace,
    }

    def render(template: str, messages: list[dict[str, str]], given: dict[str, Any]) -> str:
        return environment.from_string(template).render(messages=messages, **given)

    return render


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    main(*sys.argv[1:])
