"""Train a tiny multiplexed tagger that finds names, then print the names it finds in three texts in one pass."""

import random
from tempfile import TemporaryDirectory

import torch
from transformers import BertConfig, BertModel, BertTokenizer

import datamux

NAMES = ["anna", "omar", "mei", "luca"]
FILL = ["the", "parcel", "of", "is", "late", "says", "in"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *NAMES, *FILL]

tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(VOCABULARY)})
chance = random.Random(0)
torch.manual_seed(0)
shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
encoder = BertModel(BertConfig(vocab_size=len(VOCABULARY), **shape))
model = datamux.multiplex(encoder, num_instances=3, task="token-classification", id2label={0: "O", 1: "B-PER"}).train()
optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
names = torch.tensor(tokenizer.convert_tokens_to_ids(NAMES))
for _ in range(200):
    texts = [" ".join(chance.choices(NAMES + FILL, k=chance.randint(3, 6))) for _ in range(96)]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    labels = torch.isin(inputs["input_ids"], names).long().where(inputs["attention_mask"].bool(), -100)
    model(**inputs, labels=labels).loss.backward()
    optimiser.step()
    optimiser.zero_grad()

with TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts = ["the parcel of Anna is late", "says Omar", "Mei is in the parcel of Luca"]
    for text, spans in zip(texts, datamux.load(folder)(texts, group_size=3), strict=True):
        print(f"{text!r}: {', '.join(span['word'] for span in spans) or 'no names'}")
