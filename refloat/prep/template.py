"""A compiled chat template, and one rendering of it, within bounds. Its input: `conversation.py`."""

import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

from jinja2 import Template, TemplateSyntaxError

from refloat.prep.environment import TemplateRefusalError, chat_environment
from refloat.prep.limits import TimeLimitError, memory_limit, within_time
from refloat.prep.sources import TemplateSource

#: Characters of the longest prompt that is rendered; far more than any context holds.
MAX_RENDERED_CHARS = 64 * 1024 * 1024
#: Memory that one rendering may take beyond what the process has.
_MAX_EXTRA_BYTES = 1024 * 1024 * 1024
_EXCERPT_CHARS = 120


class TemplateLoadError(Exception):
    """The template cannot be compiled: the model has no chat. Says where."""


class RenderError(Exception):
    """The template did not come to an end. The message is for the caller.

    `refused`: in the template's own words, about the conversation.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class Rendering(NamedTuple):
    """What a template is given; its fields are the names that templates know."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    documents: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True


class ChatTemplate:
    """One model's template."""

    def __init__(
        self, source: TemplateSource, special_texts: Mapping[str, str], *, limit_s: float
    ) -> None:
        """Compiles it. Raises `TemplateLoadError` naming the construct and its line."""
        self.source = source
        self._special_texts = dict(special_texts)
        self._limit_s = limit_s
        self._default = _compiled(source.text, limit_s)
        with_tools = source.with_tools
        self._with_tools = self._default if with_tools is None else _compiled(with_tools, limit_s)

    def mentions(self, word: str) -> bool:
        """Whether the template's text speaks of something."""
        return word in self.source.text or word in (self.source.with_tools or "")

    def render(
        self,
        rendering: Rendering,
        more: Mapping[str, Any] | None = None,
        *,
        limit_s: float | None = None,
    ) -> str:
        """The prompt as text. `more`: the caller's own variables. Raises `RenderError`."""
        template = self._with_tools if rendering.tools else self._default
        variables = {**self._special_texts, **(more or {}), **rendering._asdict()}
        limit_s = self._limit_s if limit_s is None else min(limit_s, self._limit_s)
        try:
            with memory_limit(_MAX_EXTRA_BYTES):
                return within_time(limit_s, lambda: _bounded(template, variables))
        except TemplateRefusalError as error:
            raise RenderError(error.message or "refused", refused=True) from error
        except RenderError:
            raise
        except TimeLimitError:
            raise RenderError(f"the chat template took longer than {limit_s:g} s") from None
        except MemoryError:
            raise RenderError("the chat template needs too much memory for this request") from None
        except RecursionError:
            raise RenderError("the chat template nests too deeply for this request") from None
        except Exception as error:  # a template can raise anything, at the caller's cost
            raise RenderError(self._blame(error)) from error

    def _blame(self, error: Exception) -> str:
        """Which line of the template failed, and with what."""
        text = f"the chat template cannot render this request: {type(error).__name__}: {error}"
        line = _failing_line(error)
        if line is None:
            return text
        lines = self.source.text.splitlines()
        construct = lines[line - 1].strip()[:_EXCERPT_CHARS] if line <= len(lines) else ""
        return f"{text} (line {line}: {construct})"


def _compiled(text: str, limit_s: float) -> Template:
    try:
        with memory_limit(_MAX_EXTRA_BYTES):
            return within_time(limit_s, lambda: chat_environment().from_string(text))
    except TemplateSyntaxError as error:
        raise TemplateLoadError(f"{error.message} (line {error.lineno})") from error
    except TimeLimitError:
        raise TemplateLoadError(f"compiling it takes longer than {limit_s:g} s") from None
    except (RecursionError, MemoryError):
        raise TemplateLoadError("it nests too deeply or is too long to be compiled") from None
    except Exception as error:  # jinja2 lets through whatever its code generator meets
        raise TemplateLoadError(f"{type(error).__name__}: {error}") from error


def _bounded(template: Template, variables: Mapping[str, Any]) -> str:
    parts: list[str] = []
    length = 0
    for part in template.generate(variables):
        length += len(part)
        if length > MAX_RENDERED_CHARS:
            raise RenderError(f"the prompt is longer than {MAX_RENDERED_CHARS} characters")
        parts.append(part)
    return "".join(parts)


def _failing_line(error: Exception) -> int | None:
    """jinja2 puts the template's own lines into the traceback; the innermost one is to blame."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
    return lines[-1] if lines else None
