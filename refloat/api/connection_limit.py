"""How many connections may stand at a time: as many as leave descriptors for the children, files and
pipes without which nothing could be recovered."""

import resource

#: More than this is never asked for.
_MOST_DESCRIPTORS = 65_536
#: Kept for everything but connections, or half of all where there are few.
_RESERVED = 256


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as it may give itself: shells begin with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """Of this process as it is limited now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(1, descriptors - min(_RESERVED, descriptors // 2))
