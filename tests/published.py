"""Small random checkpoints in the published DataMUX format, and the published forward pass as plain formulas.

The formulas are written from the description of the format and share no code with the package.
"""

import json
import math
import shutil
from pathlib import Path

import torch
import transformers as tf
from safetensors.torch import save_file
from torch.nn import functional as F

VOCAB, D, N, EPS, PAD = 50_265, 8, 3, 1e-5, 1
LABELS = 4
KINDS = ("sentence", "token", "retrieval")
CONTEXTUAL = "gaussian_attention_v2"  # of MUX-PLM only
MUXES = ("gaussian_hadamard", "binary_hadamard", "random_ortho", "random_ortho_low_rank")


def config_fields(mux="gaussian_hadamard", demux="index", kind="sentence", n=N, **more):
    return {
        "model_type": "roberta",
        "architectures": ["RobertaForMaskedLM"],  # says nothing
        "vocab_size": VOCAB,
        "hidden_size": D,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 60,
        "type_vocab_size": 1,
        "layer_norm_eps": EPS,
        "pad_token_id": PAD,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "id2label": {str(i): f"LABEL_{i}" for i in range(LABELS)},
        "label2id": {f"LABEL_{i}": i for i in range(LABELS)},
        "num_instances": n,
        "muxing_variant": mux,
        "demuxing_variant": demux,
        "retrieval_loss_coeff": 1 if kind == "retrieval" else 0.1,
        "task_loss_coeff": 0 if kind == "retrieval" else 0.9,
        "retrieval_percentage": 1.0,
        "gaussian_hadamard_norm": 20,
        "binary_hadamard_epsilon": 0,
        "learn_muxing": 0,
        "finetuning_task": "ner" if kind == "token" else "mnli",
        **more,
    }


def random_weights(mux="gaussian_hadamard", demux="index", kind="sentence", n=N, seed=0):
    torch.manual_seed(seed)
    fields = {name: value for name, value in config_fields().items() if name not in ("model_type", "id2label")}
    encoder = tf.RobertaModel(tf.RobertaConfig(**fields), add_pooling_layer=False)
    weights = {f"roberta.{name}": 0.7 * torch.randn_like(w) for name, w in encoder.state_dict().items()}
    for name in weights:  # close to 1, so that every row keeps its say through all layers
        if name.endswith("LayerNorm.weight"):
            weights[name] = 1 + 0.3 * weights[name]
    weights["roberta.embeddings.position_ids"] = torch.arange(60).unsqueeze(0)  # a buffer of older versions
    weights["instance_embedding"] = {
        "gaussian_hadamard": lambda: torch.randn(n, D),
        "binary_hadamard": lambda: torch.eye(n).repeat_interleave(D // n, 1).repeat(1, 2)[:, :D],
        "random_ortho": lambda: torch.linalg.qr(torch.randn(n, D, D))[0],
        "random_ortho_low_rank": lambda: low_rank_keys(n),
    }[mux]()

    def linear(name, rows, columns):
        weights[f"{name}.weight"], weights[f"{name}.bias"] = torch.randn(rows, columns), torch.randn(rows)

    def norm(name):
        weights[f"{name}.weight"], weights[f"{name}.bias"] = 1 + 0.3 * torch.randn(D), torch.randn(D)

    def demultiplexer(part):
        if demux == "index":
            linear(f"{part}.dense", D, 2 * D)
            norm(f"{part}.layer_norm")
        for i in range(n) if demux == "mlp" else ():
            linear(f"{part}.demux_module.dense_{i}", D, D)
            norm(f"{part}.demux_module.layer_norm_{i}")

    demultiplexer("demultiplexer")
    if demux == "index" and kind == "token":
        linear("demultiplexer.decoder", LABELS, D)
        weights["demultiplexer.bias"] = weights["demultiplexer.decoder.bias"].clone()
    else:
        linear("demultiplexer.dense_before_out_proj", D, D)
        linear("demultiplexer.out_proj", LABELS, D)
        if demux == "mlp":
            norm("demultiplexer.layernorm_presoftmax")
    demultiplexer("retrieval_head")
    if demux == "mlp":
        linear("retrieval_head.dense_pre_vocab", D, D)
        norm("retrieval_head.layer_norm_pre_vocab")
    weights["retrieval_head.decoder.weight"] = torch.randn(VOCAB, D)
    weights["retrieval_head.bias"] = torch.randn(VOCAB)
    weights["retrieval_head.decoder.bias"] = weights["retrieval_head.bias"].clone()
    return weights


def low_rank_keys(n):
    """U H_i^T, where H_i has only the columns of H that belong to slot i."""
    h, u = torch.linalg.qr(torch.randn(2, D, D))[0]
    slot_of_column = torch.arange(D) // (D // n)
    return torch.stack([u @ (h * (slot_of_column == i)).T for i in range(n)])


def write_checkpoint(folder: Path, fields, weights, safe=False):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))
    if safe:
        save_file(weights, folder / "model.safetensors")
    else:
        torch.save(weights, folder / "pytorch_model.bin")
    return folder


def random_checkpoint(folder, mux="gaussian_hadamard", demux="index", kind="sentence", *, safe=False, **more):
    """The folder and the weights of a new checkpoint."""
    weights = random_weights(mux, demux, kind)
    return write_checkpoint(folder, config_fields(mux, demux, kind, **more), weights, safe), weights


def in_hub_cache(cache: Path, name: str, folder: Path) -> None:
    """A folder as the Hub's cache holds a download: the files lie in blobs, and a commit has links to them."""
    commit, place = "0" * 39 + "1", cache / f"models--{name.replace('/', '--')}"
    for part in ("refs", "blobs", f"snapshots/{commit}"):
        (place / part).mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, place / "blobs" / str(number))
        (place / "snapshots" / commit / file.name).symlink_to(place / "blobs" / str(number))


def padded_rows(rows, tokens=5, seed=3):
    """Ids that begin with <s> and end in padding, which is attended to; the lengths differ."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 40_000, (rows, tokens), generator=generator)
    ids[:, 0] = 0
    lengths = torch.randint(2, tokens + 1, (rows,), generator=generator)
    return torch.where(torch.arange(tokens) < lengths[:, None], ids, PAD)


# The published forward pass. Only full groups: it drops the rows that do not fill one.


def embed(w, ids):
    """(i l) -> (i l d): words, positions that skip padding, types, LayerNorm."""
    present = (ids != PAD).long()
    positions = present.cumsum(1) * present + PAD
    return embedding_block(w, w["roberta.embeddings.word_embeddings.weight"][ids], positions)


def embedding_block(w, vectors, positions):
    vectors = vectors + w["roberta.embeddings.position_embeddings.weight"][positions]
    return layer_norm(
        w, "roberta.embeddings.LayerNorm", vectors + w["roberta.embeddings.token_type_embeddings.weight"][0]
    )


def layer_norm(w, name, x):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + EPS).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def add_prefix(ids, n):
    """Rows of one group (n l) with their prefix and class id (n n+1+l)."""
    rows = []
    for i in range(n):
        prefix = [50_000] * n
        prefix[i] = VOCAB - 2 - i
        rows.append([*prefix, 49_923, *ids[i].tolist()])
    return torch.tensor(rows)


def mix(w, vectors, mux):
    """(n l d) -> (l d)."""
    keys = w["instance_embedding"]
    if mux.startswith("random_ortho"):
        return sum((keys[i] @ vectors[i].T).T for i in range(len(keys))) / math.sqrt(len(keys))
    return sum(keys[i] * vectors[i] for i in range(len(keys))) / len(keys)


def run_encoder(w, mixture):
    """(l d) -> (l d): embedded a second time, at positions 2, 3, 4, ..., then the layers, without a mask."""
    return run_layers(w, embedding_block(w, mixture, torch.arange(len(mixture)) + PAD + 1))


def run_layers(w, x):
    for layer in range(2):
        x = run_layer(w, f"roberta.encoder.layer.{layer}", x)
    return x


def run_layer(w, at, x, mask=None):
    """(l d) -> (l d); where `mask` (l) is 0, nothing is looked at. As in transformers 4.4, by subtracting much."""
    q, k, v = (linear(w, f"{at}.attention.self.{name}", x) for name in ("query", "key", "value"))
    hidden = 0 if mask is None else -10_000 * (1 - mask.double())
    heads = []
    for part in (slice(0, D // 2), slice(D // 2, D)):
        attention = ((q[:, part] @ k[:, part].T / math.sqrt(D // 2)).double() + hidden).softmax(-1).float()
        heads.append(attention @ v[:, part])
    x = layer_norm(
        w, f"{at}.attention.output.LayerNorm", x + linear(w, f"{at}.attention.output.dense", torch.cat(heads, -1))
    )
    inner = F.gelu(linear(w, f"{at}.intermediate.dense", x))
    return layer_norm(w, f"{at}.output.LayerNorm", x + linear(w, f"{at}.output.dense", inner))


def group_states(w, ids, mux, demux):
    """Rows of one group (n l) -> what the encoder makes of their mixture."""
    ids = ids.clone()
    if demux == "mlp":
        ids[:, 0] = 49_923
    else:
        ids = add_prefix(ids, len(ids))
    return run_encoder(w, mix(w, embed(w, ids), mux))


def take_out(w, part, h, i, demux, positions):
    """Slot i's vectors at these positions: (r d)."""
    if demux == "index":
        both = torch.cat([h[i].expand(len(positions), -1), h[positions]], -1)
        return layer_norm(w, f"{part}.layer_norm", F.gelu(linear(w, f"{part}.dense", both)))
    module = f"{part}.demux_module"
    return layer_norm(w, f"{module}.layer_norm_{i}", F.gelu(linear(w, f"{module}.dense_{i}", h[positions])))


def published_logits(w, ids, mux, demux, kind, n=N):
    """(i l) -> (i' c), (i' l c) or (i' l v): i' = the rows of full groups."""
    logits = []
    for start in range(0, len(ids) // n * n, n):
        h = group_states(w, ids[start : start + n], mux, demux)
        first = n + 1 if demux == "index" else 0
        for i in range(n):
            if kind == "retrieval":
                z = take_out(w, "retrieval_head", h, i, demux, torch.arange(first, len(h)))
                if demux == "mlp":
                    z = F.gelu(linear(w, "retrieval_head.dense_pre_vocab", z))
                    z = layer_norm(w, "retrieval_head.layer_norm_pre_vocab", z)
                logits.append(z @ w["retrieval_head.decoder.weight"].T + w["retrieval_head.bias"])
                continue
            class_position = torch.tensor([n if demux == "index" else 0])
            positions = class_position if kind == "sentence" else torch.arange(first, len(h))
            z = take_out(w, "demultiplexer", h, i, demux, positions)
            if demux == "index" and kind == "token":
                logits.append(z @ w["demultiplexer.decoder.weight"].T + w["demultiplexer.bias"])
                continue
            z = F.gelu(linear(w, "demultiplexer.dense_before_out_proj", z))
            if demux == "mlp":
                z = layer_norm(w, "demultiplexer.layernorm_presoftmax", z)
            z = linear(w, "demultiplexer.out_proj", z)
            logits.append(z[0] if kind == "sentence" else z)
    return torch.stack(logits)


# MUX-PLM: BERT, keys instead of a prefix, a deeper demultiplexer.


def mux_plm_fields(mux="gaussian_hadamard", kind="sentence", layers=3, **more):
    fields = config_fields(mux, "index_pos", kind, n=N, model_type="bert", vocab_size=200, type_vocab_size=2)
    return fields | {"pad_token_id": 0, "task_loss_coeff": 1, "num_hidden_demux_layers": layers, **more}


def mux_plm_weights(mux="gaussian_hadamard", kind="sentence", layers=3, seed=0):
    """The trunk has three names, and the decoder of words is the encoder's table of words."""
    as_datamux = random_weights("gaussian_hadamard" if mux == CONTEXTUAL else mux, "index", seed=seed)
    weights = {"instance_embedding": as_datamux["instance_embedding"]}
    for name, value in as_datamux.items():
        if name.startswith("roberta."):
            weights[f"bert.{name.removeprefix('roberta.')}"] = value
    for part, layer in (("muxing_attention", 0), ("muxing_attention_2", 1)) if mux == CONTEXTUAL else ():
        for name in [name for name in as_datamux if name.startswith(f"roberta.encoder.layer.{layer}.")]:
            value, ours = as_datamux[name], f"{part}.{name.split('.', 4)[4]}"
            weights[ours] = torch.randn_like(value) * (0.7 if value.dim() == 2 else 0.3) + ("Norm.weight" in name)
    weights["bert.embeddings.word_embeddings.weight"] = torch.randn(200, D)
    weights["bert.embeddings.token_type_embeddings.weight"] = torch.randn(2, D)

    def dense(name, columns=D, rows=D):
        weights[f"{name}.weight"], weights[f"{name}.bias"] = torch.randn(rows, columns), torch.randn(rows)

    def norm(name):
        weights[f"{name}.weight"], weights[f"{name}.bias"] = 1 + 0.3 * torch.randn(D), torch.randn(D)

    weights["demux_module.demux_instance_embedding"] = torch.randn(N, D)
    for i in range(1, layers + 1):
        dense(f"demux_module.dense_{i}", columns=2 * D if i == 1 else D)
        norm(f"demux_module.layer_norm_{i}")
    for name, value in list(weights.items()):
        if name.startswith("demux_module."):
            weights |= {f"{part}.{name}": value.clone() for part in ("demultiplexer", "retrieval_head")}
    for part in ("demultiplexer", "retrieval_head"):
        dense(f"{part}.pre_decoder")
        norm(f"{part}.pre_decoder_layer_norm")
    weights["retrieval_head.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
    weights["retrieval_head.decoder.bias"] = torch.randn(200)
    if kind != "retrieval":
        dense("classifier", rows=LABELS)
    return weights


def mix_in_context(w, vectors, mask, kind):
    """(n l d) and the mask (n l) -> (l d): first within each row, then, after the keys, over the rows of a position."""
    u = []
    for key, row, present in zip(w["instance_embedding"], vectors, mask, strict=True):
        u.append(key * (run_layer(w, "muxing_attention", row, present) + row))
    u = torch.stack(u)
    mixed = []
    for position in range(u.shape[1]):
        present = None if kind == "retrieval" else mask[:, position]
        mixed.append((run_layer(w, "muxing_attention_2", u[:, position], present) + u[:, position]).mean(0))
    return torch.stack(mixed)


def mux_plm_logits(weights, ids, mux, kind, layers=3, mask=None):
    w = {f"roberta.{name.removeprefix('bert.')}": value for name, value in weights.items()} | weights
    positions = torch.arange(ids.shape[1])
    logits = []
    for start in range(0, len(ids) // N * N, N):
        group = ids[start : start + N].clone()
        group[:, 0] = 101
        vectors = embedding_block(w, w["bert.embeddings.word_embeddings.weight"][group], positions)
        if mux == CONTEXTUAL:
            present = torch.ones_like(group) if mask is None else mask[start : start + N].long()
            mixture = mix_in_context(w, vectors, present, kind)
        else:
            mixture = mix(w, vectors, mux)
        h = run_layers(w, embedding_block(w, mixture, positions))
        for key in w["demux_module.demux_instance_embedding"]:
            a = torch.cat([key.expand(len(h), -1), h], -1)
            if kind == "retrieval":
                for i in (1, 2):
                    a = layer_norm(w, f"demux_module.layer_norm_{i}", F.gelu(linear(w, f"demux_module.dense_{i}", a)))
                a = F.gelu(linear(w, "retrieval_head.pre_decoder", a))
                a = layer_norm(w, "retrieval_head.pre_decoder_layer_norm", a)
                logits.append(linear(w, "retrieval_head.decoder", a))
                continue
            a = F.gelu(linear(w, "demux_module.dense_1", a))
            for i in range(2, layers):
                a = a + F.gelu(linear(w, f"demux_module.dense_{i}", a))
            last = F.gelu(linear(w, "demultiplexer.pre_decoder", a))
            a = a + layer_norm(w, "demultiplexer.pre_decoder_layer_norm", last)
            a = linear(w, "classifier", a)
            logits.append(a[0] if kind == "sentence" else a)
    return torch.stack(logits)
