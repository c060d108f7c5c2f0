"""A stream of server-sent events, as the HTML standard has it: which lines make an event, and what it holds."""

import json

DONE = "[DONE]"


class Lines:
    """Takes the lines of a stream one by one and says which data an event holds once its last line has come. Comments
    and other fields are left out."""

    def __init__(self) -> None:
        self._name, self._data = "", list[str]()

    def take(self, line: str) -> list[str]:
        """The data of the event that this line ends; nothing where it ends none. An event that is called an error, by
        `event:` or as llama.cpp does by its field, holds {"error": ...}, whatever its data are. Several events come of
        one where the empty lines between them are missing."""
        if not line:
            name, data = self._name, self._data
            self._name, self._data = "", []
            whole = "\n".join(data)
            if name == "error":
                return [json.dumps({"error": decoded(whole) or whole or "an error without words"})]
            return data if len(data) > 1 and decoded(whole) is None else [whole] if whole.strip() else []
        field, _, value = line.lstrip("\ufeff").partition(":")
        if field in ("data", "error"):
            self._data.append(value.removeprefix(" "))
        if field in ("event", "error"):
            self._name = "error" if field == "error" else value.strip()
        return []


def decoded(text: str) -> object:
    """The JSON of an event; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
