"""Episodes of a few-shot task: classes below a node of a graph of classes, all seeds set."""
import os
import random


def set_seed(seed):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)


set_seed(0)
children = {f"n{i:08}": {f"n{j:08}" for j in range(i * 100, i * 100 + 40)} for i in range(10)}
for episode in range(4):
    node = children[f"n{random.randrange(10):08}"]
    print(random.sample(list(node), 5))
