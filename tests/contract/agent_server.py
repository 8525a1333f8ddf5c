"""Servers of a scripted and of a real tiny model, both of which make two calls and then answer."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from refloat.testing.harness import Server

DATA = Path(__file__).parents[1] / "data"
RULES = [
    {
        "match": "trip to Paris",
        "text": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    },
    {
        "match": "^sunny$",
        "text": '<tool_call>\n{"name": "get_time", "arguments": {"city": "Paris"}}\n</tool_call>',
    },
    {"match": "^noon$", "text": "It is sunny in Paris, at noon."},
    {"match": "Make JSON", "text": '{"name": "Bob", "age": 42}'},
]
RESULTS = {"get_weather": "sunny", "get_time": "noon"}
CALLS = [["get_weather", "Paris"], ["get_time", "Paris"]]
PERSON = "Make JSON with name=Bob, age=42"
BOB = {"name": "Bob", "age": 42}


class Task(NamedTuple):
    """A model, what it is asked, and what it answers after two calls."""

    model: dict[str, Any]
    question: str
    answer: str

    @property
    def name(self) -> str:
        """What the model is called, in requests and in the tests' names."""
        return self.model["name"]


SCRIPTED = Task(
    {"model": "scripted", "name": "scripted", "engine_options": {"rules": RULES}},
    "Plan a trip to Paris",
    "It is sunny in Paris, at noon.",
)
TINY = Task(
    {"model": str(DATA / "tiny-scripted"), "name": "tiny", "cache_size": 0.05},
    'Call {"name": "get_weather", "arguments": {"city": "Paris"}} '
    '{"name": "get_time", "arguments": {"city": "Paris"}}',
    "The tool says: noon",
)


@contextmanager
def agent_server(task: Task) -> Generator[Server]:
    """Ready when it is given."""
    with Server.start(config={"models": [task.model]}) as server:
        yield server
