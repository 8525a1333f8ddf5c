"""What a child says of its libraries."""

import importlib.metadata

from refloat.wire.versions import library_versions


def test_versions_are_those_of_the_installed_distributions() -> None:
    names = ["openvino", "openvino_genai", "openvino_tokenizers", "jinja2"]
    assert library_versions(names) == {name: importlib.metadata.version(name) for name in names}


def test_library_that_is_not_installed_is_left_out() -> None:
    assert library_versions(["no_such_library"]) == {}
