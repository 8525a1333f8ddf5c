"""What of a file's path may be told to callers: its name. Logs keep the whole path."""

import re

_ABSOLUTE = re.compile(r"""(?<![\w./])/(?:[^\s/'"`:,;()]+/)*(?=[^\s/'"`:,;()])""")


def without_folders(text: str) -> str:
    """The text with every absolute path in it cut to its last part."""
    return _ABSOLUTE.sub("", text)
