"""Run by test_hugging_face.py, in its own process and under torchrun: the stock Trainer on a multiplexed model."""

import json
import sys
import tempfile

import torch
import transformers as tf
from test_learning import rows_with_label

from conftest import tiny_encoder
from datamux import multiplex


def rows(count: int, seed: int) -> list[dict]:
    ids, labels = rows_with_label(count, torch.Generator().manual_seed(seed))
    return [
        {"input_ids": i, "attention_mask": torch.ones_like(i), "labels": y} for i, y in zip(ids, labels, strict=True)
    ]


def main(report_file: str) -> None:
    torch.manual_seed(0)
    model = multiplex(tiny_encoder(), 4)
    test = rows(101, seed=1)
    seen = {}

    def metrics(prediction: tf.EvalPrediction) -> dict[str, float]:
        seen["labels"] = prediction.label_ids.tolist()
        return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}

    trainer = tf.Trainer(
        model=model,
        args=tf.TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            max_steps=400,
            per_device_train_batch_size=64,
            per_device_eval_batch_size=16,
            learning_rate=3e-3,
            lr_scheduler_type="constant",
            logging_steps=10,
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=rows(8000, seed=0),
        eval_dataset=test,
        compute_metrics=metrics,
    )
    trainer.train()
    result = trainer.evaluate()
    if trainer.is_world_process_zero():
        report = {
            "processes": trainer.args.world_size,
            "evaluated": len(seen["labels"]),
            "labels_seen": sorted(seen["labels"]),
            "labels_given": sorted(int(row["labels"]) for row in test),
            "accuracy": result["eval_accuracy"],
            "first_loss": trainer.state.log_history[0]["loss"],
        }
        with open(report_file, "w") as file:
            json.dump(report, file)


if __name__ == "__main__":
    main(sys.argv[1])
