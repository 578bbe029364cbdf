"""Train a tiny multiplexed classifier on a csv file, then answer three texts in one pass. Offline, in a few seconds."""

import csv
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import BertConfig, BertModel, BertTokenizer

import datamux

WORDS = {"blame": ["bad", "dull", "poor"], "praise": ["good", "great", "fine"]}
FILL = ["the", "film", "was", "plot", "so"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FILL, *WORDS["blame"], *WORDS["praise"]]

with TemporaryDirectory() as folder:
    file, chance = Path(folder, "reviews.csv"), random.Random(0)
    made = [(chance.sample([*FILL, chance.choice(WORDS[label])], 6), label) for label in [*WORDS] * 500]
    with file.open("w", newline="") as handle:
        csv.writer(handle).writerows([("text", "label"), *((" ".join(words), label) for words, label in made)])
    rows = list(csv.DictReader(file.open()))
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(VOCABULARY)})
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    encoder = BertModel(BertConfig(vocab_size=len(VOCABULARY), **shape))
    model = datamux.multiplex(encoder, num_instances=3, id2label=dict(enumerate(WORDS))).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(200):
        batch = chance.sample(rows, 96)  # other texts share a pass at every step
        inputs = tokenizer([row["text"] for row in batch], padding=True, return_tensors="pt")
        model(**inputs, labels=torch.tensor([[*WORDS].index(row["label"]) for row in batch])).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts = ["the film was great", "so dull was the plot", "the plot was fine"]
    for text, answer in zip(texts, datamux.load(folder)(texts, group_size=3), strict=True):
        print(f"{text!r}: {answer['label']} ({answer['score']:.0%})")
