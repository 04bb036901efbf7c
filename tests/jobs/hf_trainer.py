"""Hugging Face Trainer on a random tiny GPT-2: configuration and tokens made here, nothing is downloaded."""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
from common import save
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Tokens(torch.utils.data.Dataset):
    def __init__(self, n, context):
        self.rows = torch.randint(100, (n, context))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


if __name__ == "__main__":
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    set_seed(22)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=2, n_head=2))
    arguments = TrainingArguments(
        output_dir=os.path.join(sys.argv[1], "trainer"), max_steps=steps, per_device_train_batch_size=4,
        logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, seed=22)
    trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(64, 32))
    trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print("step", entry["step"], "loss", entry["loss"], "grad_norm", entry["grad_norm"])
    save("weights.bin", model.parameters())
