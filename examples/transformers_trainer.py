"""The Trainer of Hugging Face: rules by name, gradient accumulation, a checkpoint, a resumption.

python examples/transformers_trainer.py
"""

import logging
import tempfile
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.utils.logging import disable_progress_bar

import colangevin as cl
from colangevin.integrations.transformers import Monitor, optimizer_from

logging.getLogger("colangevin").setLevel(logging.ERROR)
disable_progress_bar()
STEPS = 40
RULES = {
    "bert.encoder.*.attention.self.*.weight": cl.Orthogonal(),
    "bert.encoder.*.dense.weight": cl.Sphere(radius=2.0),
}


def sentences(count: int = 256) -> list[dict[str, Any]]:
    """Is the first token an even one?"""
    tokens = torch.randint(8, (count, 12), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": row, "labels": int(row[0] % 2)} for row in tokens]


def trainer(folder: str) -> Trainer:
    set_seed(1)
    config = BertConfig(
        vocab_size=8,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=12,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    arguments = TrainingArguments(
        folder,
        max_steps=STEPS,
        save_steps=STEPS // 2,
        logging_steps=STEPS // 4,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        lr_scheduler_type="cosine",
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
    )
    made = Trainer(
        BertForSequenceClassification(config),
        arguments,
        train_dataset=sentences(),
        callbacks=[Monitor()],
        optimizer_cls_and_kwargs=optimizer_from(
            RULES, lr=0.01, momentum=0.9, temperature=1e-7, seed=0
        ),
    )
    made.remove_callback(PrinterCallback)
    return made


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = trainer(folder)
        whole.train()
        resumed = trainer(folder)
        resumed.train(resume_from_checkpoint=f"{folder}/checkpoint-{STEPS // 2}")
        last, again = (each.evaluate(sentences())["eval_loss"] for each in (whole, resumed))
        start = trainer(folder).evaluate(sentences())["eval_loss"]
    print(f"loss {start:.3f} -> {last:.3f}")
    print(f"resumed after {STEPS // 2} of {STEPS} steps: {again:.3f}, the same: {again == last}")
    logged = [entry for entry in whole.state.log_history if "loss" in entry][-1]
    worst = max(value for name, value in logged.items() if name.startswith("violation/"))
    print(f"constraints hold to 1e-6: {worst < 1e-6}")


if __name__ == "__main__":
    main()
