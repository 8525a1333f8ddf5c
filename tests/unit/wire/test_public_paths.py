import pytest

from refloat.wire.paths import without_folders


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("/srv/models/x/openvino_model.bin is missing", "openvino_model.bin is missing"),
        ("/srv/models/x has no tokenizer", "x has no tokenizer"),
        ("open('/etc/a.json') failed", "open('a.json') failed"),
        ("failed at /build/src/core.cpp:12", "failed at core.cpp:12"),
        ("/a and /b/c", "a and c"),
        (
            "and/or, 3 / 4, tokens/s, owner/name, ./x/y",
            "and/or, 3 / 4, tokens/s, owner/name, ./x/y",
        ),
        ("see https://host/path", "see https://host/path"),
    ],
)
def test_absolute_path_is_cut_to_its_name(text: str, public: str) -> None:
    assert without_folders(text) == public
