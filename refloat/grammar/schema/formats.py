"""Formats of strings, as regular expressions of the whole string. What they allow is always right."""

_YEAR = r"(?:000[1-9]|00[1-9]\d|0[1-9]\d{2}|[1-9]\d{3})"
_LEAP = r"(?:\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP}-02-29)"
)
_OFFSET = r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_TIME = rf"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?{_OFFSET}"
_DAYS = r"(?:\d{1,9}D|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?)"
_CLOCK = r"T(?:\d{1,9}S|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?)"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d{2}|[1-9]?\d)"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_HEX = "[0-9A-Fa-f]"
_H16 = r"[0-9A-Fa-f]{1,4}"
_PCHAR = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_IPV6 = "|".join(
    [rf"{_H16}(?::{_H16}){{7}}", "::"]
    + [rf"(?:{_H16}:){{1,{left}}}(?::{_H16}){{1,{7 - left}}}" for left in range(1, 7)]
    + [rf"(?:{_H16}:){{1,7}}:", rf":(?::{_H16}){{1,7}}"]
)

_BASE64 = "[A-Za-z0-9+/]"
_SEGMENT = "[A-Za-z0-9._~-]+"
_TAIL = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"


def _host(label: int, more: int, *, least: int = 0) -> str:
    """A name of so many characters at most, and so many more of them."""
    name = rf"[A-Za-z0-9](?:[A-Za-z0-9-]{{0,{label - 2}}}[A-Za-z0-9])?"
    return rf"{name}(?:\.{name}){{{least},{more}}}"


def _email(atom: int, label: int, more: int) -> str:
    name = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~-]{{1,{atom}}}"
    return rf"{name}(?:\.{name})?@{_host(label, more, least=1)}"


def _path(more: int) -> str:
    return rf"/?[A-Za-z0-9._~-][A-Za-z0-9._~/?&=-]{{0,{more}}}"


def _web_uri(label: int, more: int, path: int) -> str:
    return rf"https?://{_host(label, more)}(?:/[A-Za-z0-9._~/?&=-]{{0,{path}}})?"


_HOST = _host(30, 6)
_ORIGIN = rf"[A-Za-z][A-Za-z0-9+.-]{{1,15}}://(?:{_HOST}|{_IPV4})(?::[1-9]\d{{0,3}})?"
_URI = rf"{_ORIGIN}(?:/{_PCHAR}*)*{_TAIL}"


def _uuid(version: str) -> str:
    return rf"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89ABab]{_HEX}{{3}}-{_HEX}{{12}}"


FORMATS: dict[str, str | None] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": rf"P(?:\d{{1,9}}W|{_DAYS}(?:{_CLOCK})?|{_CLOCK})",
    "uuid": r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "email": _email(30, 30, 4),
    "hostname": _HOST,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "ipvanyaddress": f"{_IPV4}|{_IPV6}",
    "uri": _URI,
    "uri-reference": rf"{_URI}|/?{_SEGMENT}(?:/{_SEGMENT})*{_TAIL}",
    "json-pointer": r"(?:/(?:[^/~]|~0|~1)*)*",
    **dict.fromkeys(
        ("byte", "base64"),
        rf"(?:{_BASE64}{{4}})*(?:{_BASE64}{{2}}==|{_BASE64}{{3}}=)?",
    ),
    **{f"uuid{version}": _uuid(version) for version in "12345678"},
    **dict.fromkeys(("password", "binary", "path", "file-path", "directory-path")),
}
"""By name; `None`: it says nothing about the text."""

_SHORT: dict[str, tuple[str, ...]] = {
    "email": (_email(14, 20, 2), _email(5, 10, 1)),
    "hostname": (_host(20, 2), _host(10, 1)),
    "uri-reference": (
        f"{_web_uri(24, 4, 60)}|{_path(180)}",
        f"{_web_uri(20, 2, 20)}|{_path(80)}",
        f"{_web_uri(10, 1, 5)}|{_path(30)}",
        _path(18),
        _path(6),
    ),
    "uri": (
        rf"{_ORIGIN}(?:/[A-Za-z0-9._~/?&=-]{{0,40}})?",
        _web_uri(24, 4, 60),
        _web_uri(20, 2, 20),
        _web_uri(10, 1, 5),
    ),
}
"""Shorter and shorter forms of the same, where a schema has a limit of length: to count characters
beside a format would take grammars of thousands of rules, and the engine long for each token."""


def forms_of(name: str) -> tuple[str, ...]:
    """A format's regular expressions, the longest first; none where it says nothing about the text."""
    whole = FORMATS[name]
    return () if whole is None else (whole, *_SHORT.get(name, ()))
