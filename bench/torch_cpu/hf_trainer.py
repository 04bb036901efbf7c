"""hf_trainer.py - Hugging Face Trainer on a random GPT-2 (2 layers, width 128). hf_trainer.py STEPS TIMES"""

import json
import os
import resource
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from baton import Clock
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed


class Steps(TrainerCallback):
    def __init__(self):
        self.times, self.clock = [], Clock()

    def on_step_begin(self, args, state, control, **kwargs):
        self.begin = self.clock.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.times.append(self.clock.perf_counter() - self.begin)


class Tokens(torch.utils.data.Dataset):
    def __init__(self, n, context):
        self.rows = torch.randint(500, (n, context))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


if __name__ == "__main__":
    steps = int(sys.argv[1])
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=500, n_positions=128, n_embd=128, n_layer=2, n_head=4))
    steps_taken = Steps()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=8, save_strategy="no",
            report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no")
        Trainer(model=model, args=arguments, train_dataset=Tokens(512, 128), callbacks=[steps_taken]).train()
    steps_taken.clock.over()
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        json.dump({"steps": steps_taken.times, "peak_kib": peak}, f)
