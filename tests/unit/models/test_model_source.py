"""What a model string means."""

from pathlib import Path

import pytest

from refloat.models.error import ModelError
from refloat.models.source import Folder, GgufFile, Hub, Scripted, Smollm2, classify


def test_classify_keywords_win_over_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scripted").mkdir()
    assert classify("scripted") == Scripted()
    assert classify("./scripted") == Folder(Path("scripted"))
    assert classify("smollm2") == Smollm2()


def test_classify_existing_path_wins_over_hub_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert classify("owner/name") == Hub("owner/name")
    (tmp_path / "owner" / "name").mkdir(parents=True)
    assert classify("owner/name") == Folder(Path("owner/name"))


def test_classify_gguf_file_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "M.GGUF"
    path.touch()
    assert classify(str(path)) == GgufFile(path)


@pytest.mark.parametrize(
    ("model", "source"),
    [
        ("OpenVINO/Qwen3-8B-int4-ov", Hub("OpenVINO/Qwen3-8B-int4-ov")),
        ("a/b:c.gguf", Hub("a/b", "c.gguf")),
        ("a/b:sub/c.Q4_K_M.gguf", Hub("a/b", "sub/c.Q4_K_M.gguf")),
    ],
)
def test_classify_hub_id_may_name_a_file(model: str, source: Hub) -> None:
    assert classify(model) == source


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("", "the model is empty"),
        ("/nope/model", "there is no file or folder /nope/model"),
        ("./nope", "there is no file or folder ./nope"),
        ("~nobody-of-that-name/x", "~nobody-of-that-name/x"),
        ("nope.gguf", "there is no file or folder nope.gguf"),
        ("some/nope.gguf", "there is no file or folder some/nope.gguf"),
        ("a/b/c", "there is no file or folder a/b/c"),
        ("smolm2", "did you mean smollm2?"),
        ("gpt-4", "nor a Hugging Face id (owner/name)"),
        ("a b/c", "nor a Hugging Face id"),
        ("x" * 5000, "is no usable path"),
        ("nul\0byte", "nor a Hugging Face id"),
    ],
)
def test_classify_unusable_string_says_why(model: str, reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        classify(model)
    assert reason in caught.value.reason
    assert len(caught.value.reason) < 600


def test_classify_file_of_a_model_names_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "openvino_model.xml"
    path.touch()
    with pytest.raises(ModelError, match=f"give the folder {tmp_path}"):
        classify(str(path))
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ModelError, match=r"neither a folder nor a \.gguf file"):
        classify(str(tmp_path / "notes.txt"))
